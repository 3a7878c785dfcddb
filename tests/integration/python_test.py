#!/usr/bin/env python3
"""The Python module says what the program says: the same figures, the same errors; and the page docs/python.md is true.

    tests/integration/python_test.py FOLDER_OF_THE_MODULE PATH_OF_TWOFOLD
"""
import ast
import concurrent.futures
import contextlib
import inspect
import io
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
MODULE = str(pathlib.Path(sys.argv.pop()).absolute())
sys.path.insert(0, MODULE)
os.environ["TWOFOLD_PROGRAM"] = PROGRAM
import twofold  # noqa: E402

SPEC = """name: "small"
model { mlp { inputs: 64 hidden: [256, 256] classes: 10 } }
train { steps: 2 global_batch: 32 micro_batch: 4 }
parallel { dp: 8 }
fabric { simulated { cluster: "dgx-a100" nodes: 1 } }
"""
AS_DICT = {"name": "small", "model": {"mlp": {"inputs": 64, "hidden": [256, 256], "classes": 10}}, "train": {"steps": 2, "global_batch": 32, "micro_batch": 4},
           "parallel": {"dp": 8}, "fabric": {"simulated": {"cluster": "dgx-a100", "nodes": 1}}}


class InFolder(unittest.TestCase):
    """Each test runs in an empty folder, which holds the spec as small.textproto."""

    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        pathlib.Path("small.textproto").write_text(SPEC)

    def program(self, *words, status=0):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status in (0, 3) else done.stderr

    def refused(self, call, error=None):
        with self.assertRaises(error or twofold.InputError) as caught:
            call()
        self.assertIsInstance(caught.exception, twofold.Error)
        return str(caught.exception)


class SameFigures(InFolder):
    def test_predict(self):
        self.program("run", "small.textproto", "--quiet", "--set=trace.enabled=false", "--set=parallel.dp=4", "--out=out")
        report = json.loads(pathlib.Path("out/report.json").read_text())
        ways = [twofold.predict("small.textproto", set={"parallel.dp": 4}), twofold.predict(pathlib.Path("small.textproto"), parallel={"dp": 4}),
                twofold.predict(SPEC, parallel__dp=4), twofold.predict(AS_DICT, **{"parallel.dp": 4})]
        for prediction in ways:
            self.assertEqual(prediction.to_dict(), report)
        self.assertGreater(ways[0].median_step_seconds, 0)
        self.assertEqual(ways[0], pickle.loads(pickle.dumps(ways[0])))
        loaded = twofold.load_run("out")
        self.assertEqual(loaded.to_dict(), report)
        self.assertEqual(loaded.spec, pathlib.Path("out/spec.textproto").read_text())

    def test_values_are_written_as_set_takes_them(self):
        sets = ("parallel.overlap=false", "train.optimizer.sgd={}", "model.mlp.hidden=128,64", "train.clip_norm=0.5", "trace.enabled=true", "name=some thing")
        self.program("run", "small.textproto", "--quiet", *(f"--set={one}" for one in sets), "--out=out")
        prediction = twofold.predict("small.textproto", parallel={"overlap": False}, train={"optimizer": {"sgd": {}}, "clip_norm": 0.5}, model__mlp__hidden=[128, 64],
                                     set={"trace.enabled": True, "name": "some thing"})
        self.assertEqual(prediction.to_dict(), json.loads(pathlib.Path("out/report.json").read_text()))

    def test_predict_each(self):
        theirs = json.loads(self.program("predict", "small.textproto", "--vary=parallel.dp=2,3,4", "--vary=train.micro_batch=2,4", "--json"))
        ours = twofold.predict_each("small.textproto", vary={"parallel.dp": [2, 3, 4], "train": {"micro_batch": [2, 4]}})
        self.assertEqual(len(ours), 6)
        for mine, other, row in zip(ours, theirs, ours.rows()):
            self.assertEqual({name: str(row[name]) for name in other["set"]}, other["set"])
            if "error" in other:
                self.assertIsInstance(mine, twofold.InputError)
                self.assertEqual(str(mine), other["error"])
                self.assertEqual(row["error"], other["error"])
            else:
                for name in ("outcome", "median_step_seconds", "low", "high", "mfu", "peak_bytes", "notes"):
                    self.assertEqual(getattr(mine, name), other[name], name)
                self.assertEqual(row["median_step_seconds"], other["median_step_seconds"])
        self.assertEqual(sum(isinstance(one, twofold.Error) for one in ours), 2)
        changes = twofold.predict_each("small.textproto", [{"parallel.dp": 4}, {"parallel": {"dp": 2}, "train.micro_batch": 4}])
        self.assertEqual([changes[0], changes[1]], [ours[5], ours[1]])

    def test_parts_of_a_prediction_are_read_when_they_are_asked_for(self):
        whole = twofold.predict(SPEC).to_dict()
        asked = twofold.predict(SPEC)
        self.assertEqual(list(asked.figures()), [name for name in asked.figures() if not isinstance(whole.get(name), (list, dict))])
        self.assertEqual(asked.ranks, whole["ranks"])
        asked.ranks[0]["rank"] = "changed"  # what was read stays
        self.assertEqual(asked.to_dict()["ranks"][0]["rank"], "changed")
        self.assertEqual(list(asked.to_dict()), list(whole))
        again = twofold.predict(SPEC)
        self.assertEqual(pickle.loads(pickle.dumps(again)).notes, whole["notes"])
        self.assertEqual(again, twofold.predict(SPEC))
        self.assertNotEqual(again, asked)

    def test_memory(self):
        self.program("memory", "small.textproto", "--set=train.micro_batch=2", "--set=parallel.dp=2", "--out=out")
        memory = twofold.memory("small.textproto", train__micro_batch=2, parallel__dp=2)
        self.assertEqual(memory.to_dict(), json.loads(pathlib.Path("out/memory.json").read_text()))
        self.assertEqual(memory.report, json.loads(pathlib.Path("out/report.json").read_text()))
        self.assertTrue(memory.fits)
        self.assertIsNone(memory.advice)
        first = memory.rows()[0]
        self.assertEqual((first["first_rank"], first["ranks"], first["category"]), (0, 2, "parameters"))
        too_much = {"memory.budget_mib": 1, "model.mlp.hidden": [512, 512]}
        printed = self.program("memory", "small.textproto", "--set=memory.budget_mib=1", "--set=model.mlp.hidden=512,512", status=3)
        memory = twofold.memory("small.textproto", set=too_much)
        self.assertEqual(memory.text, printed)
        self.assertFalse(memory.fits)
        self.assertGreater(memory.advice["tried"], 0)
        self.assertIsNone(twofold.memory("small.textproto", set=too_much, advice=False).advice)

    def test_plan(self):
        words = ("--nodes=1", "--gap=20%", "--top=3", "--set=parallel.pp=1", "--processes=1")
        spec = SPEC.replace("parallel { dp: 8 }", "parallel { tp: 1 sharding: NO_SHARD }").replace(" micro_batch: 4", "")
        pathlib.Path("open.textproto").write_text(spec)
        ours = twofold.plan("open.textproto", nodes=1, gap="20%", top=3, processes=1, parallel={"pp": 1})
        self.assertEqual(ours.text, self.program("plan", "open.textproto", *words))
        theirs = json.loads(self.program("plan", "open.textproto", *words, "--json"))
        took = ours.to_dict()["core_seconds"]  # differs from run to run
        self.assertEqual(took.keys(), theirs["core_seconds"].keys())
        self.assertEqual({**ours.to_dict(), "core_seconds": {}}, {**theirs, "core_seconds": {}})
        self.assertEqual(twofold.plan(spec, nodes=1, gap=0.2, top=3, processes=1, parallel__pp=1).layouts, ours.layouts)
        self.assertEqual(ours.best, ours.layouts[0])
        self.assertEqual([row["seconds"] for row in ours.rows()], sorted(row["seconds"] for row in ours.rows()))

    def test_sweep(self):
        words = ("--vary=parallel.dp=2,4,8", "--scaling=strong", "--set=train.steps=1", "--out=out")
        theirs = json.loads(self.program("sweep", "small.textproto", *words, "--json"))
        ours = twofold.sweep("small.textproto", {"parallel.dp": [2, 4, 8]}, scaling="strong", train={"steps": 1})
        self.assertEqual(ours.to_dict(), theirs)
        self.assertEqual(ours.text, pathlib.Path("out/sweep.txt").read_text())
        self.assertEqual([(row["parallel.dp"], row["predicted_median_step_seconds"]) for row in ours.rows()],
                         [(point["ranks"], point["predicted"]["median_step_seconds"]) for point in theirs["points"]])
        self.assertEqual(sorted(os.listdir()), ["out", "small.textproto"])  # without `out`, nothing is kept
        twofold.sweep("small.textproto", {"parallel.dp": 2}, out="kept")
        self.assertTrue(pathlib.Path("kept/sweep.csv").exists())

    def test_a_sweep_measures(self):
        ours = twofold.sweep(SPEC.split("fabric")[0], {"parallel.dp": [1, 2]}, measured=True, predicted=True, repeats=1, fabric="in_memory", fixed="train.global_batch")
        for point in ours.points:
            self.assertEqual(point["measured"]["peak_bytes"], point["predicted"]["peak_bytes"])

    def test_bench(self):
        words = ("--fabric=simulated", "--cluster=dgx-a100", "--ranks=4", "-b", "1K", "-e", "4K")
        ours = twofold.bench("all_gather", fabric="simulated", cluster="dgx-a100", ranks=4, minbytes=1024, maxbytes="4K")
        self.assertEqual(ours.to_dict(), json.loads(self.program("bench", "all_gather", *words, "--json")))
        self.assertEqual(ours.text, self.program("bench", "all_gather", *words))
        self.assertEqual([row["size"] for row in ours.rows()], [1024, 2048, 4096])
        measured = twofold.bench("all_reduce", ranks=2, maxbytes=64, iters=2)
        self.assertEqual(measured.out_of_bounds, 0)


class SameErrors(InFolder):
    def test_specs(self):
        for words, call in [
            (["predict", "none.textproto"], lambda: twofold.predict("none.textproto")),
            (["predict", "small.textproto", "--set=parallel.dpp=1"], lambda: twofold.predict("small.textproto", parallel__dpp=1)),
            (["predict", "small.textproto", "--set=parallel.dp=3"], lambda: twofold.predict("small.textproto", parallel__dp=3)),
            (["predict", "small.textproto", "--set=train.precision.reduce=F23"], lambda: twofold.predict("small.textproto", train={"precision": {"reduce": "F23"}})),
            (["memory", "none.textproto"], lambda: twofold.memory("none.textproto")),
            (["memory", "small.textproto", "--set=parallel.dp=3"], lambda: twofold.memory("small.textproto", parallel__dp=3)),
            (["plan", "--nodes=1"], lambda: twofold.plan(nodes=1)),
            (["plan", "--model=gpt2-124m", "--nodes=1", "--gap=x"], lambda: twofold.plan(model="gpt2-124m", nodes=1, gap="x", global_batch=8)),
            (["sweep", "small.textproto", "--vary=parallel.dp=2", "--scaling=some"], lambda: twofold.sweep("small.textproto", {"parallel.dp": 2}, scaling="some")),
            (["sweep", "small.textproto", "--vary=parallel.dp=2", "--repeats=2"], lambda: twofold.sweep("small.textproto", {"parallel.dp": [2]}, repeats=2)),
            (["bench", "all_reduc"], lambda: twofold.bench("all_reduc")),
            (["bench", "all_reduce", "--ranks=0"], lambda: twofold.bench("all_reduce", ranks=0)),
        ]:
            if words[0] == "plan" and "--gap=x" in words:
                words = [*words, "--global-batch=8"]
            with self.subTest(words):
                self.assertEqual("twofold: error: " + self.refused(call) + "\n", self.program(*words, status=2))

    def test_other_texts_and_dicts(self):
        self.assertEqual(self.refused(lambda: twofold.predict("model { mpl {} }")).split("\n")[0][:10], "spec:1:9: ")
        self.assertEqual(self.refused(lambda: twofold.predict({"train": {"stepz": 1}})), "spec: train.stepz: Train has no such field")
        self.assertIn("train.steps: expected a whole number", self.refused(lambda: twofold.predict({"train": {"steps": "one"}})))
        self.assertIn("expected a path, a text or a dict (got int)", self.refused(lambda: twofold.predict(7)))
        self.assertIn("expected a dict of fields", self.refused(lambda: twofold.predict(SPEC, set=["parallel.dp=1"])))
        self.assertIn("train.steps: expected a number", self.refused(lambda: twofold.predict(SPEC, train={"steps": None})))
        self.assertIn("parallel.dp: expected a number", self.refused(lambda: twofold.predict(SPEC, parallel__dp=float("nan"))))
        self.assertIn("list of values, which is empty", self.refused(lambda: twofold.predict_each(SPEC, vary={"parallel.dp": []})))
        self.assertIn("either changes, a list of dicts, or vary", self.refused(lambda: twofold.predict_each(SPEC)))
        self.assertIn("expected a path, a text or a dict (got int)", self.refused(lambda: twofold.predict_each(7, [{}])))
        self.assertEqual(len(twofold.predict_each(SPEC, [])), 0)
        self.assertEqual(self.refused(lambda: twofold.plan(model="gpt2-124m", nodes="two")), 'nodes: expected a whole number (got "two")')
        self.assertIn("report.json: cannot be read", self.refused(lambda: twofold.load_run("nowhere")))
        self.assertIn("expected a whole number", self.refused(lambda: twofold.Predictor("two")))
        self.assertEqual(self.refused(lambda: twofold.Predictor(-1)), "processes: -1: must be 0 or more")
        with self.assertRaisesRegex(AttributeError, "Prediction has no field 'step_time'; it has .*median_step_seconds"):
            twofold.predict(SPEC).step_time

    def test_misspelt_arguments(self):
        known = "(known: spec, model, cluster, nodes, ranks, global_batch, "
        self.assertIn("nods: is neither an argument of plan nor a field of the spec; did you mean nodes? " + known, self.refused(lambda: twofold.plan(nods=1)))
        self.assertIn("rank: is neither an argument of plan nor", self.refused(lambda: twofold.plan("small.textproto", rank=8, nodes=1)))
        self.assertIn("tp: is neither an argument of predict nor a field of the spec; known: spec, set; a field is set by parallel__tp=",
                      self.refused(lambda: twofold.predict(SPEC, tp=2)))
        self.assertIn("fabrik: is neither an argument of memory nor a field of the spec; did you mean fabric?", self.refused(lambda: twofold.memory(SPEC, fabrik="gloo")))
        self.assertIn("repeat: is neither an argument of sweep nor a field of the spec; did you mean repeats?",
                      self.refused(lambda: twofold.sweep(SPEC, {"parallel.dp": 8}, repeat=2)))
        for one in twofold.predict_each(SPEC, [{"parallel.dp": 8}], step=3):
            self.assertIn("step: is neither an argument of predict nor a field", str(one))
        self.assertIn('"dpp" is not a field', self.refused(lambda: twofold.predict(SPEC, **{"parallel.dpp": 8})))
        self.assertEqual(twofold.predict(SPEC, name="mine", **{"train.steps": 1}).name, "mine")

    def test_what_the_module_lacks(self):
        with self.assertRaisesRegex(AttributeError, "no function run; start the program, `twofold run`, .* load_run"):
            twofold.run
        with self.assertRaisesRegex(AttributeError, "no attribute 'simulate'; it has .*predict"):
            twofold.simulate
        self.assertFalse(hasattr(twofold, "anything"))

    def test_predicted_failures_are_results(self):
        prediction = twofold.predict(SPEC, memory__budget_mib=1, model={"mlp": {"hidden": 4096}})
        self.assertEqual((prediction.outcome, prediction.ok), ("OUT_OF_MEMORY", False))
        self.assertIn("OUT_OF_MEMORY", repr(prediction))

    def test_the_program_is_missing_or_another(self):
        for program, why in [("/no/such/twofold", '"/no/such/twofold", cannot be started: No such file'), ("true", "does not predict: it ended with exit status 0")]:
            with unittest.mock.patch.dict(os.environ, TWOFOLD_PROGRAM=program):
                self.assertIn(why, self.refused(lambda: twofold.Predictor(1), twofold.RunError))


class ManyAtATime(InFolder):
    def test_threads_share_processes_and_folders_change(self):
        with twofold.Predictor(2) as predictor, concurrent.futures.ThreadPoolExecutor(4) as threads:
            ranks = list(threads.map(lambda dp: predictor.predict("small.textproto", parallel__dp=dp).world_size, [1, 2, 4, 8] * 3))
            self.assertEqual(ranks, [1, 2, 4, 8] * 3)
            os.mkdir("below")
            os.chdir("below")
            self.assertEqual(predictor.predict("../small.textproto").world_size, 8)
        self.assertIn("is closed", self.refused(lambda: predictor.predict(SPEC)))

    def test_others_run_while_one_waits(self):
        # a program that begins once there is a file, which only another thread than the one that waits can write
        pathlib.Path("late").write_text(f'#!/bin/sh\ntouch begun\nfor i in $(seq 500); do [ -e go ] && exec {PROGRAM} "$@"; sleep 0.01; done\n')
        os.chmod("late", 0o755)
        twofold.predict(SPEC)
        with unittest.mock.patch.dict(os.environ, TWOFOLD_PROGRAM=os.path.abspath("late")), unittest.mock.patch.object(twofold._ask, "_default", None):
            for call in (twofold._ask.default, lambda: twofold.bench("all_reduce", fabric="simulated", cluster="dgx-a100", ranks=2, maxbytes=8)):
                done = threading.Event()
                thread = threading.Thread(target=lambda call=call, done=done: (call(), done.set()))
                thread.start()
                within(20, pathlib.Path("begun").exists)
                pathlib.Path("go").touch()
                thread.join()
                self.assertTrue(done.is_set())
                os.remove("go")
                os.remove("begun")

    def test_a_process_that_ends_costs_one_prediction(self):
        with twofold.Predictor(1) as predictor:
            predictor.predict(SPEC)
            before = children()
            with twofold.Predictor(1) as other:
                other.predict(SPEC)
                for pid in children() - before:
                    os.kill(pid, signal.SIGKILL)
                self.assertIn("the predicting process was ended by Killed", self.refused(lambda: other.predict("small.textproto"), twofold.RunError))
                self.assertTrue(other.predict(SPEC).ok)
            self.assertEqual(children(), before)
            self.assertTrue(predictor.predict(SPEC).ok)

    def test_a_process_that_ends_costs_one_of_many(self):
        before = children()
        with twofold.Predictor(1) as predictor:
            timer = threading.Timer(0.3, lambda: [os.kill(pid, signal.SIGKILL) for pid in children() - before])
            timer.start()
            each = predictor.predict_each(SPEC, [{"train.seed": seed} for seed in range(3000)])
            timer.join()
        lost = [one for one in each if isinstance(one, twofold.Error)]
        self.assertEqual([type(one) for one in lost], [twofold.RunError], lost)
        self.assertIn("the predicting process was ended by Killed", str(lost[0]))

    def test_a_forked_child_has_processes_of_its_own(self):
        twofold.predict(SPEC)
        predictor = twofold.Predictor(1)
        before = children()
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                fine = twofold.predict(SPEC).ok and "was forked" in self.refused(lambda: predictor.predict(SPEC), twofold.RunError)
                predictor.close()  # which must not end its parent's processes
                os._exit(0 if fine else 2)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(children(), before)
        self.assertTrue(predictor.predict(SPEC).ok)

    PLAN = 'twofold.plan(model="llama3-8b", cluster="dgx-h100", nodes=64, global_batch=1024, gap=0, processes=1)'
    PREDICTIONS = f'twofold.predict_each({SPEC!r}, [{{"train.seed": seed}} for seed in range(50000)])'

    def interpreter_that_asks(self, end, call, processes):
        """What an interpreter prints to which `end` is done while it asks for minutes; its processes must end."""
        script = f"""import twofold
try:
    {call}
except KeyboardInterrupt:
    print(twofold.predict({SPEC!r}).ok)
"""
        mark = f"TWOFOLD_TEST_MARK={self.id()} {os.getpid()}"
        environment = {**os.environ, "PYTHONPATH": MODULE, **dict([mark.split("=")])}
        with subprocess.Popen([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as child:
            self.assertTrue(within(20, lambda: len(marked(mark)) >= processes), "the processes have not begun")
            end(child)
            printed = child.communicate(timeout=20)[0]
        self.assertTrue(within(20, lambda: not marked(mark)), "processes outlive the interpreter")
        return printed

    def test_an_interrupt_ends_what_is_asked(self):
        # of the plan: the interpreter, a process for predictions, one that plans, and one that it has forked
        for call, processes in ((self.PLAN, 4), (self.PREDICTIONS, 1 + min(2, os.cpu_count()))):
            with self.subTest(call):
                interrupt = lambda child: os.killpg(child.pid, signal.SIGINT)  # as Ctrl-C at a terminal does
                self.assertEqual(self.interpreter_that_asks(interrupt, call, processes), "True\n")

    def test_what_works_ends_with_the_interpreter(self):
        self.assertEqual(self.interpreter_that_asks(lambda child: child.kill(), self.PLAN, 4), "")


class Looks(InFolder):
    def test_they_print(self):
        prediction = twofold.predict(SPEC)
        row = self.program("predict", "small.textproto").split("\n")[1].split("  ")
        for shown in filter(None, map(str.strip, row)):
            self.assertIn(shown, repr(prediction))
        self.assertIn("<th>step time</th>", prediction._repr_html_())
        each = twofold.predict_each(SPEC, vary={"parallel.dp": [4, 3]})
        self.assertRegex(repr(each), r"(?s)parallel\.dp +ranks +step time.*\n4 .*\n3 .*--set parallel.dp=3: ")
        self.assertEqual(each._repr_html_().count("<tr>"), 3)
        named = twofold.predict_each(SPEC, [{"name": "<b>"}])
        for shown in (named, named[0]):
            self.assertIn("&lt;b&gt;", shown._repr_html_())
            self.assertNotIn("<b>", shown._repr_html_())
        self.assertIn("median_step_seconds", dir(prediction))

    def test_frames(self):
        prediction = twofold.predict(SPEC)
        self.assertEqual(len(prediction.rows("steps")), 2)
        self.assertEqual(len(prediction.rows("ranks")), len(prediction.ranks))
        self.assertIn("one of steps, ranks, collectives", self.refused(lambda: prediction.rows("layers")))
        try:
            import pandas
        except ImportError:
            self.assertIn("needs pandas, which is not installed", self.refused(prediction.to_frame, twofold.Error))
            return
        for result in (prediction, twofold.predict_each(SPEC, vary={"parallel.dp": [4, 3]}), twofold.memory(SPEC)):
            frame = result.to_frame()
            self.assertIsInstance(frame, pandas.DataFrame)
            self.assertEqual(len(frame), len(result.rows()))

    def test_the_stubs_are_of_this_module(self):
        stubs = {node.name: node for node in ast.parse(pathlib.Path(MODULE, "twofold/__init__.pyi").read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for name in twofold.__all__:
            self.assertIn(name, stubs)
            self.assertTrue(getattr(twofold, name).__doc__, name)
            if isinstance(stubs[name], ast.FunctionDef):
                arguments = stubs[name].args
                told = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)] + ([arguments.kwarg.arg] if arguments.kwarg else [])
                self.assertEqual(told, list(inspect.signature(getattr(twofold, name)).parameters), name)
            else:
                methods = {node.name for node in stubs[name].body if isinstance(node, ast.FunctionDef)}
                self.assertEqual([method for method in methods if not hasattr(getattr(twofold, name), method)], [], name)


class Page(InFolder):
    def test_its_examples_run_and_print_what_it_says(self):
        text = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.S)
        self.assertGreater(len(blocks), 5)
        names = {}
        for code, wanted in blocks:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/python.md", "exec"), names)
            if wanted:
                self.assertEqual(printed.getvalue(), wanted, code)


def children():
    """Those of this process, without the ones that are ending."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError):
            found |= {int(pid) for pid in pathlib.Path(f"/proc/self/task/{task}/children").read_text().split()}
    return found


def marked(mark):
    """Processes whose environment has it."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += [path] if mark.encode() in path.read_bytes().split(b"\0") else []
    return found


def within(seconds, happens):
    end = time.monotonic() + seconds
    while not (happened := happens()) and time.monotonic() < end:
        time.sleep(0.02)
    return happened


if __name__ == "__main__":
    unittest.main()
