#!/usr/bin/env python3
"""How long does a training step of a small GPT and of a small CNN take in Twofold and in PyTorch?"""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Study, Table, fail, milliseconds, percent, progress, row, run  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` with MPI, Debian's PyTorch (apt-get install -y --no-install-recommends python3-torch), 2 cores, and this "
              "machine to itself: it measures. No GPU.", takes="about a quarter of an hour on 2 cores (an estimate).")
study.option("--rounds", type=int, default=5, metavar="N", help="runs of each job in Twofold and PyTorch, by turns (default: 5)")
study.option("--steps", type=int, default=16, metavar="N", help="steps of a run (default: 16)")
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for
GPT = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 256, "sequence": 128}  # the preset gpt-3m
CNN = {"channels": 3, "side": 32, "widths": "16,32,64", "blocks": "1,1,2", "classes": 10, "lr": 2e-3}  # the preset cnn-small
TIMEOUT = 1800  # seconds that a run of PyTorch's may take
# What PyTorch may be given: tried one after another, each kept where it is faster than what was there.
LIBRARIES = [("OPENBLAS_CORETYPE", ["Haswell", "SkylakeX", "Cooperlake"]), ("ATEN_CPU_CAPABILITY", ["avx2", "avx512"])]


class Model:
    def __init__(self, spec, sizes, batch, micro_batch, variants):
        self.spec, self.sizes, self.batch, self.micro_batch, self.variants = spec, sizes, batch, micro_batch, LIBRARIES + variants


MODELS = {"GPT": Model(ROOT / "experiments/quickstart/gpt.textproto", GPT, 16, 8, [("micro_batch", [16]), ("attention", ["baddbmm", "sdpa"]), ("foreach", [0])]),
          "CNN": Model(study.folder / "cnn.textproto", CNN, 64, 64, [("channels_last", [1]), ("micro_batch", [32]), ("foreach", [0])])}
JOBS = [  # name, model, ranks, threads, fabric, ratio at most
    ("GPT, 1 process, 1 thread", "GPT", 1, 1, "in_memory", 0.75),
    ("GPT, 1 process, 2 threads", "GPT", 1, 2, "in_memory", 0.75),
    ("GPT, 2 ranks in memory, 1 thread each; DDP over Gloo", "GPT", 2, 1, "in_memory", 0.75),
    ("GPT, 2 ranks over MPI, 1 thread each; DDP over Gloo", "GPT", 2, 1, "mpi", 0.75),
    ("CNN, 1 process, 1 thread", "CNN", 1, 1, "in_memory", 1.0),
    ("CNN, 1 process, 2 threads", "CNN", 1, 2, "in_memory", 1.0),
]


def ours_of(twofold, job, steps):
    """The report of one run in Twofold."""
    _, kind, ranks, threads, fabric, _ = job
    settings = {"parallel.dp": ranks, "train.micro_batch": MODELS[kind].micro_batch, "train.steps": steps, "train.threads_per_rank": threads}
    return twofold.report(MODELS[kind].spec, settings, f"--fabric={fabric}", launch=["launch", f"--ranks={ranks}", "--"] if fabric == "mpi" else [])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environment(choice, threads):
    """Of PyTorch's processes; `choice` holds environment variables in capitals."""
    return dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), **{k: v for k, v in choice.items() if k.isupper()})


def pytorch(model, choice, ranks, threads, steps):
    """What train.py prints; `choice` holds its flags and, in capitals, environment variables."""
    micro_batch = min(choice.get("micro_batch", model.micro_batch), model.batch // ranks)
    flags = {**model.sizes, **{k: v for k, v in choice.items() if k.islower()}, "micro_batch": micro_batch,
             "accumulation": model.batch // ranks // micro_batch, "threads": threads, "steps": steps}
    command = [PYTHON, str(study.folder / "train.py")] + [f"--{k}={v}" for k, v in flags.items()]
    variables = environment(choice, threads)
    if ranks > 1:
        variables.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), GLOO_SOCKET_IFNAME="lo")
    processes = [subprocess.Popen(command, env={**variables, **({"RANK": str(r)} if ranks > 1 else {})},
                                  stdout=subprocess.PIPE, text=True) for r in range(ranks)]
    try:
        outputs = [p.communicate(timeout=TIMEOUT)[0] for p in processes]
    except subprocess.TimeoutExpired:
        fail(f"train.py is not done after {TIMEOUT} s; a process that died leaves the others waiting")
    finally:
        for p in processes:  # none outlives this call
            p.kill()
            p.wait()
    if any(p.returncode for p in processes):
        fail("train.py failed")
    return json.loads(outputs[0])


def best_variant(model, threads):
    """PyTorch's fastest settings with so many threads, found by trying one change after another; by the fastest step, to
    which it does not matter what else the machine did meanwhile."""
    best, seconds = {}, pytorch(model, {}, 1, threads, 8)["fastest_step_seconds"]
    for name, values in model.variants:
        for value in values:
            trial = {**best, name: value}
            took = pytorch(model, trial, 1, threads, 8)["fastest_step_seconds"]
            progress(f"  {threads} thread(s) {trial}: {milliseconds(took, 1)}")
            if took < seconds:
                best, seconds = trial, took
    return best


def product_rate(choice, threads):
    """Multiply-adds that OpenBLAS reaches, twice them a second: a large product, and the step's own."""
    sizes = {"threads": threads, "rows": MODELS["GPT"].micro_batch * GPT["sequence"], **{key: GPT[key] for key in ("hidden", "vocab", "layers")}}
    command = [PYTHON, study.folder / "products.py", *(f"--{key}={value}" for key, value in sizes.items())]
    return json.loads(run(command, env=environment(choice, threads)).output)


class Found:
    """What the rounds found: step times of both, by job; and what was wrong."""

    def __init__(self):
        self.ours, self.theirs, self.plain, self.rates = [[] for _ in JOBS], [[] for _ in JOBS], [], {1: [], 2: []}
        self.problems, self.flops, self.torch = [], {}, ""

    def add(self, twofold, number, choices, steps):
        name, kind, ranks, threads, *_ = JOBS[number]
        report = ours_of(twofold, JOBS[number], steps)
        peer = pytorch(MODELS[kind], choices[kind, threads], ranks, threads, steps)
        self.flops[kind], self.torch = report["model_flops_per_step"], peer["torch"]
        ours, theirs = report["median_step_seconds"], peer["median_step_seconds"]
        self.ours[number].append(ours), self.theirs[number].append(theirs)
        progress(f"{name}: {milliseconds(ours, 1)} against {milliseconds(theirs, 1)}, {ours / theirs:.2f}")
        if report["parameters"] != peer["parameters"]:
            self.problems.append(f"{name}: {report['parameters']} parameters against {peer['parameters']}")
        losses = [s["loss"] for s in report["steps"]]
        if not all(last < 0.9 * first for first, last in ((losses[0], losses[-1]), (peer["first_loss"], peer["last_loss"]))):
            self.problems.append(f"{name}: a loss did not fall by a tenth in {steps} steps")

    def rows(self):
        for (name, *_, bound), a, b in zip(JOBS, self.ours, self.theirs):
            ratios = [x / y for x, y in zip(a, b)]
            yield row(name, None, statistics.median(a), "s", "none", pytorch=statistics.median(b), ratio=statistics.median(ratios), lowest=min(ratios),
                      highest=max(ratios), at_most=bound)
        a, b = statistics.median(self.ours[0]), statistics.median(self.plain)
        yield row("GPT, 1 process, 1 thread; PyTorch as it is installed", None, a, "s", "none", pytorch=b, ratio=a / b, lowest=None, highest=None, at_most=None)

    def shares(self):
        """Lines about the share of OpenBLAS's product rate."""
        table = Table("threads", "2048 x 2048 x 2048", "products of the step", "Twofold's step, of the large one", "of its own",
                      "PyTorch's step, of the large one", "of its own")
        for i, threads in ((0, 1), (1, 2)):
            rates = [statistics.median(r[key] for r in self.rates[threads]) for key in ("large", "own")]
            shares = [self.flops["GPT"] / statistics.median(side[i]) / rate for side in (self.ours, self.theirs) for rate in rates]
            table.add(threads, *(f"{rate / 1e9:.0f} GFLOP/s" for rate in rates), *(percent(share, 0) for share in shares))
        return ["Share of the product rate that OpenBLAS reaches here, from the GPT's FLOPs:", "", *table.lines]


def main():
    options, twofold = study.start()
    choices = {(name, threads): best_variant(model, threads) for name, model in MODELS.items() for threads in (1, 2)}
    found = Found()
    for _ in range(options.rounds):
        for number in range(len(JOBS)):
            found.add(twofold, number, choices, options.steps)
        found.plain.append(pytorch(MODELS["GPT"], {}, 1, 1, 8)["median_step_seconds"])
        for threads, rates in found.rates.items():
            rates.append(product_rate(choices["GPT", threads], threads))
    rows = list(found.rows())
    table = Table("job", "Twofold", "PyTorch", "ratio", "lowest, highest round", "at most")
    for r in rows:
        spread = "" if r["lowest"] is None else f"{r['lowest']:.2f}, {r['highest']:.2f}"
        table.add(r["name"], milliseconds(r["measured"], 1), milliseconds(r["pytorch"], 1), f"{r['ratio']:.2f}", spread, r["at_most"] or "")
    text = (f"{options.rounds} rounds of {options.steps} steps; {MODELS['GPT'].batch} sequences of {GPT['sequence']} bytes, or {MODELS['CNN'].batch} "
            f"images, a step; PyTorch {found.torch}; {os.cpu_count()} cores. PyTorch's best settings: " +
            "; ".join(f"{name}, {threads} thread(s): {choice}" for (name, threads), choice in choices.items()) + ".")
    study.publish("A training step beside PyTorch's", [*table.lines, "", *found.shares(), "", text], rows)
    study.end(found.problems + [f"{r['name']}: {r['ratio']:.2f} is more than {r['at_most']}" for r in rows if r["at_most"] and r["ratio"] > r["at_most"]])


if __name__ == "__main__":
    main()
