#!/usr/bin/env python3
"""The lab and the guides run as their pages say.

    tests/integration/lab_test.py PATH_OF_TWOFOLD

`examples/lab/run.sh --short` runs all steps with a tiny network, in a temporary folder. The commands that `--print` prints are those of
docs/lab.md. All commands of docs/lab.md run in the page's order, trainings with the tiny network, and what they print where nothing is measured
is what the page shows, its picture of Alps included. So do the plans of docs/which-strategy.md and docs/planning.md that take seconds.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "examples/lab/run.sh"
PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())


BUILD = pathlib.Path(PROGRAM).parents[2]
SCRIPTS = ("examples/lab/run.sh", "experiments/quickstart.sh", "export ")  # run by other tests, or for others
TINY = ["--set=model={ cnn { widths: [8] blocks: [1] } }", "--set=data={ synthetic { samples: 160 } }", "--set=train.validation={ samples: 32 }",
        "--set=train.epochs=2", "--set=train.schedule.warmup_steps=0"]


def lab(*words, folder, **environment):
    return subprocess.run([RUN, *words], cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "TWOFOLD": PROGRAM, **environment})


def blocks(page):
    """The lines of each fenced block."""
    return [block.strip("\n").split("\n") for block in re.findall(r"(?ms)^```\n(.*?)^```$", (ROOT / page).read_text())]


def is_command(line):
    return line.startswith(("twofold ", "build/", *SCRIPTS))


def commands(page):
    """(command, what the page shows that it prints: the lines of the next block, if those are no commands)"""
    of_page = blocks(page)
    for block, following in zip(of_page, [*of_page[1:], []]):
        for line in block:
            if is_command(line):
                last = line == block[-1] and not any(map(is_command, following))
                yield line, following if last else []


class Lab(unittest.TestCase):
    def test_all_steps_run(self):
        with tempfile.TemporaryDirectory() as folder:
            result = lab("--short", folder=folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            for step in range(1, 7):
                self.assertRegex(result.stdout, rf"(?m)^== {step}")
            # a rank sees a quarter of the data in all epochs together, or nearly all of it
            seen = [int(n) for n in re.findall(r"rank 0 saw (\d+) of 2048", result.stdout)]
            self.assertGreater(seen[0], 1600)
            self.assertEqual(seen[1], 512)
            self.assertIn("wrong-batch", result.stdout)
            losses = dict(re.findall(r"(?m)^  ([\w-]+) +([\d.]+) \(", result.stdout))
            self.assertTrue({"single", "ddp", "ddp-4", "no-set-epoch", "fsdp-f32", "fsdp"} <= losses.keys(), losses)
            self.assertEqual(losses["ddp"], losses["fsdp-f32"])  # the same training in another layout
            runs = pathlib.Path(folder, "runs/lab")
            reports = {name: json.loads((runs / name / "report.json").read_text()) for name in ("ddp", "fsdp", "no-set-epoch", "ddp-4")}
            peak = {name: max(rank["peak_bytes"] for rank in report["ranks"]) for name, report in reports.items()}
            self.assertLess(peak["fsdp"], peak["ddp"])
            first = {name: [step["loss"] for step in report["steps"]] for name, report in reports.items()}
            half = len(first["ddp-4"]) // 2  # the first epoch is the same, the second is not
            self.assertEqual(first["ddp-4"][:half], first["no-set-epoch"][:half])
            self.assertNotEqual(first["ddp-4"][half:], first["no-set-epoch"][half:])
            alps = json.loads((runs / "scaling-alps/sweep.json").read_text())["points"]
            self.assertEqual([point["ranks"] for point in alps], [1, 2, 4, 8, 16, 32, 64])
            self.assertGreater(alps[-1]["predicted"]["speed_up"], 4)
            emulated = json.loads((runs / "scaling-emulated/sweep.json").read_text())["points"]
            for point in emulated:
                self.assertEqual(point["predicted"]["peak_bytes"], point["measured"]["peak_bytes"])
            self.assertTrue((runs / "wrong-batch/report.html").exists())
            self.assertTrue((runs / "scaling/sweep.svg").exists())

    def test_the_page_has_these_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            printed = lab("--print", folder=folder)
            self.assertEqual(printed.returncode, 0, printed.stderr)
            self.assertEqual(os.listdir(folder), [])
        def words(line):
            return [w.replace(str(ROOT) + "/", "") for w in shlex.split(line) if not re.match(r"--(out|repeats)=", w)]
        run = [words(line[2:]) for line in printed.stdout.splitlines() if line.startswith("$ twofold")]
        page = (ROOT / "docs/lab.md").read_text().split("## Sweeps of your own")[0]
        shown = [words(line) for line in page.splitlines() if re.match(r"twofold (run|sweep|calibrate|report)\b", line)]
        self.assertGreaterEqual(len(shown), 7)
        for command in shown:
            self.assertIn(command, run)

    def test_refuses_unknown_words(self):
        result = lab("7", folder=".")
        self.assertEqual(result.returncode, 2)
        self.assertIn('"7": must be a step, 1 to 6', result.stderr)

    def test_what_is_missing_is_said_or_made_before_anything_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            result = lab(folder=folder, TWOFOLD="/nowhere/twofold")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("there is no program /nowhere/twofold: experiments/quickstart.sh builds it", result.stderr)
            program = pathlib.Path(folder, "build/experiments/program/twofold")
            cmake = pathlib.Path(folder, "bin/cmake")
            for file, text in ((program, "echo trained"), (cmake, "echo $@; exit 9")):
                file.parent.mkdir(parents=True)
                file.write_text(f"#!/bin/sh\n{text}\n")
                file.chmod(0o755)
            path = f"{cmake.parent}:{os.environ['PATH']}"
            result = lab(folder=folder, TWOFOLD=str(program), PATH=path)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("step 3 needs lab_sampler", result.stderr)
            (program.parents[2] / "CMakeCache.txt").touch()
            result = lab(folder=folder, TWOFOLD=str(program), PATH=path)
            self.assertEqual(result.returncode, 9)
            self.assertRegex(result.stdout, r"^--build \S+ --target lab_sampler\n$")


class Pages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        (self.folder / "build").mkdir()
        (self.folder / "build/release").symlink_to(BUILD)

    def run_command(self, words):
        result = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=200,
                                env={**os.environ, "PATH": f"{pathlib.Path(PROGRAM).parent}:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 0, shlex.join(words) + "\n" + result.stdout + result.stderr)
        return result.stdout

    def prints(self, page, command, printed, shown):
        """Each line that the page shows is there, in this order; the page may leave lines out, by ... or without."""
        left = [line.rstrip() for line in printed.split("\n")]
        for line in shown:
            if line != "...":
                self.assertIn(line, left, f"{page}: this line of `{command}` is another one now")
                left = left[left.index(line) + 1:]

    def test_of_the_lab(self):
        exact = 0
        for command, shown in commands("docs/lab.md"):
            if command.startswith(SCRIPTS):
                continue
            words = shlex.split(command.replace("SPEC", "examples/lab/cnn.textproto"))
            tiny = "examples/lab/cnn.textproto" in words and "memory" not in words
            if words[1:] == ["calibrate"]:  # it takes a minute
                (self.folder / "runs").mkdir(exist_ok=True)
                shutil.copy(ROOT / "tests/integration/tiny.profile.textproto", self.folder / "runs/this-machine.profile.textproto")
                continue
            if words[1:2] == ["compare"]:  # what ran on the cluster
                shutil.copytree(self.folder / words[2], self.folder / words[3])
            printed = self.run_command([*words, *(TINY if tiny else [])])
            if not tiny and shown:
                self.prints("docs/lab.md", command, printed, shown)
                exact += 1
        self.assertEqual(exact, 3)  # memory, the sampler, Alps
        picture = (self.folder / "runs/lab/scaling-alps/sweep.svg").read_text()
        self.assertTrue(picture == (ROOT / "docs/lab/alps.svg").read_text(), "docs/lab/alps.svg is not what the sweep of the page draws now")
        page = (self.folder / "runs/lab/wrong-batch/report.html").read_text()
        self.assertIn("<h2>Training</h2>", page)
        for name in ("ddp-4", "wrong-batch"):
            self.assertIn(f"<th>measured (in_memory), {name}</th>", page)

    def test_of_plans(self):
        exact = 0
        for page in ("docs/which-strategy.md", "docs/planning.md"):
            spec = next((block for block in blocks(page) if block[0].startswith("model {")), [])
            (self.folder / "my.textproto").write_text("\n".join(spec) + "\n")
            for command, shown in commands(page):
                words = shlex.split(command)
                if shown or "my.textproto" in words:  # the others take a minute
                    self.prints(page, command, self.run_command(words), shown if shown != spec else [])
                    exact += shown != []
        self.assertEqual(exact, 2)


if __name__ == "__main__":
    unittest.main()
