"""Twofold: predicts and measures distributed training. See docs/python.md.

    import twofold
    prediction = twofold.predict("my.textproto", parallel={"dp": 8})
    print(prediction)                    # step time with its interval, memory
    prediction.median_step_seconds       # any field of report.json
    twofold.predict_each("my.textproto", vary={"parallel.tp": [1, 2, 4]}).to_frame()

A spec is a path, the text of a spec, or a dict. Fields are changed by `set={"parallel.dp": 8}`, or by names: `parallel={"dp": 8}`,
`parallel__dp=8`, `**{"parallel.dp": 8}`. What is wrong raises InputError, what fails RunError; both are Errors, with the texts of the
program. All calls may be made by several threads at the same time: they wait without the interpreter's lock, for processes of the program
`twofold`, which do the work.
"""
import itertools
import json
import os

from . import _ask
from ._ask import Error, InputError, RunError
from ._native import version as __version__
from ._results import Bench, Memory, Plan, Prediction, Predictions, Report, Run, Sweep

__all__ = ["Bench", "Error", "InputError", "Memory", "Plan", "Prediction", "Predictions", "Predictor", "Report", "Run", "RunError", "Sweep",
           "bench", "load_run", "memory", "plan", "predict", "predict_each", "sweep"]


class Predictor:
    """Processes that predict, so many at a time (0: one for each core). The module's functions share one that is made when it is needed;
    make your own to say how many. It ends its processes when it is closed, as by `with`."""

    def __init__(self, processes=0):
        self._pool = _ask.Pool(processes)

    @property
    def processes(self):
        """Predictions at a time."""
        return self._open().native.processes

    def predict(self, spec, *, set=None, **overrides):
        """See twofold.predict."""
        return _predict(self._open(), spec, set, overrides)

    def predict_each(self, spec, changes=None, *, vary=None, set=None, **overrides):
        """See twofold.predict_each."""
        return _predict_each(self._open(), spec, changes, vary, set, overrides)

    def close(self):
        """Ends the processes. No prediction may be under way."""
        self._pool = None

    def _open(self):
        if self._pool is None:
            raise InputError("this Predictor is closed; make another one")
        return self._pool

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def predict(spec, *, set=None, **overrides):
    """Predicts a spec, as `twofold run --fabric=simulated` does, without files and traces. A job that is predicted to run out of memory or
    to hang has a Prediction too, whose `outcome` and `message` say so."""
    return _predict(_ask.default(), spec, set, overrides)


def predict_each(spec, changes=None, *, vary=None, set=None, **overrides):
    """Predicts variants of a spec, as many at a time as there are processes. `changes`: a list of dicts, each of which changes the spec;
    `vary`: {field: values}, all combinations, the last field fastest. `set` and names change all of them. An element that cannot be
    predicted is the Error in its place."""
    return _predict_each(_ask.default(), spec, changes, vary, set, overrides)


def memory(spec, *, fabric=None, advice=True, set=None, **overrides):
    """Predicts what a spec needs of memory, as `twofold memory` does, and if it does not fit, the cheapest changes that make it fit
    (`advice=False`: not these, which take longer)."""
    answer = json.loads(_ask.default().ask("memory", {**_ask.spec_of(spec), "fabric": fabric, "advice": advice, **_ask.changes_of(set, overrides)}))
    return Memory(answer["memory"], answer["text"], answer["advice"], answer["report"])


def plan(spec=None, *, model=None, cluster=None, nodes=None, ranks=None, global_batch=None, sequence=None, framework=None, codecs=None, gap=None,
         budget=None, top=None, price=None, what_if=None, exhaustive=None, processes=None, out=None, set=None, **overrides):
    """Searches for the fastest layout that fits, as `twofold plan` does; arguments are its options. `gap`: a share, 0.01 or "1%"; `budget`:
    seconds, or "5min"."""
    arguments = dict(_ask.spec_of(spec) if spec is not None else {}, model=model, cluster=cluster, nodes=nodes, ranks=ranks, global_batch=global_batch,
                     sequence=sequence, framework=framework, gap=gap, budget=budget, top=top, price=price, what_if=what_if, exhaustive=exhaustive,
                     processes=processes, out=_path(out), **_ask.changes_of(set, overrides))
    arguments["codecs"] = codecs if codecs is None or isinstance(codecs, str) else ",".join(codecs)
    if _is_number(gap):
        arguments["gap"] = f"{100 * gap:.12g}%"
    if _is_number(budget):
        arguments["budget"] = f"{budget:.12g}s"
    answer = json.loads(_ask.default().ask("plan", arguments, another=True))
    return Plan(answer["plan"], answer["text"])


def sweep(spec, vary, *, fixed=None, scaling=None, predicted=None, measured=None, fabric=None, repeats=None, processes=None, again=None, out=None,
          set=None, **overrides):
    """Predicts, measures, or both, a spec over all combinations of `vary`, as `twofold sweep` does; arguments are its options. `out` is the
    folder of its files, from which an interrupted sweep goes on; None: nothing is kept."""
    arguments = dict(_ask.spec_of(spec), scaling=scaling, predicted=predicted, measured=measured, fabric=fabric, repeats=repeats, processes=processes,
                     again=again, out=_path(out), **_ask.changes_of(set, overrides), fixed=[fixed] if isinstance(fixed, str) else fixed,
                     vary=[f"{path}={','.join(values)}" for path, values in _ask.varied_of(vary).items()])
    import tempfile  # here: it takes long to load
    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        answer = json.loads(_ask.default().ask("sweep", {**arguments, "out": arguments["out"] or folder}, another=True))
    return Sweep(answer["sweep"], answer["text"])


def bench(operation, *, minbytes=None, maxbytes=None, stepfactor=None, stepbytes=None, iters=None, warmup_iters=None, wait=None, op=None,
          datatype=None, root=None, check=None, fabric=None, device=None, ranks=None, cluster=None, nodes=None, ranks_per_node=None, algorithm=None,
          protocol=None):
    """Times a collective over sizes, predicted or measured, as `twofold bench` does; arguments are its options. Sizes: bytes, or "64M"."""
    arguments = dict(operation=operation, stepfactor=stepfactor, iters=iters, warmup_iters=warmup_iters, wait=wait, op=op, datatype=datatype, root=root,
                     check=check if check is None else int(check), fabric=fabric, device=device, ranks=ranks, cluster=_path(cluster), nodes=nodes,
                     ranks_per_node=ranks_per_node, algorithm=algorithm, protocol=protocol)
    for name, size in (("minbytes", minbytes), ("maxbytes", maxbytes), ("stepbytes", stepbytes)):
        arguments[name] = str(size) if _is_number(size) else size
    answer = json.loads(_ask.default().ask("bench", arguments, another=True))
    if answer["bench"]["error"]:
        raise RunError(answer["bench"]["error"])
    return Bench(answer["bench"], answer["text"])


def load_run(folder):
    """The report of a run's folder, as `twofold run --out=FOLDER` wrote it."""
    answer = json.loads(_ask.default().ask("load", {"folder": _path(folder)}))
    return Run(answer["report"], answer["summary"], answer["spec"], os.fspath(folder))


def __getattr__(name):
    if name in ("calibrate", "compare", "launch", "replay", "report", "run"):
        raise AttributeError(f"twofold has no function {name}; start the program, `twofold {name}`, as by subprocess.run, and read the folder of a "
                             "run by load_run (docs/python.md)")
    raise AttributeError(f"module 'twofold' has no attribute {name!r}; it has {', '.join(__all__)}")


def _predict(pool, spec, changes, overrides):
    return Prediction(pool.ask("predict", {**_ask.spec_of(spec), **_ask.changes_of(changes, overrides)}))


def _predict_each(pool, spec, changes, vary, common, overrides):
    if (changes is None) == (vary is None):
        raise InputError("predict_each: expected either changes, a list of dicts, or vary, a dict of lists")
    if vary is not None:
        varied = _ask.varied_of(vary)
        changes = [dict(zip(varied, values)) for values in itertools.product(*varied.values())]
    settings = [dict(_ask.flat(change)) for change in changes]
    common = _ask.changes_of(common, overrides)
    sets = common.pop("set")
    answers = pool.ask_all("predict", {**_ask.spec_of(spec), **common}, [{"set": sets + _ask.sets_of(changed)} for changed in settings])
    return Predictions([said if isinstance(said, Error) else Prediction(said, changed) for said, changed in zip(answers, settings)], settings)


def _path(path):
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)
