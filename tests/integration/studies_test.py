#!/usr/bin/env python3
"""experiments/studies: every study has its files, its help needs and starts nothing, and its results.json is valid."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

STUDIES = pathlib.Path(__file__).resolve().parents[2] / "experiments/studies"
sys.path.insert(0, str(STUDIES))
import common  # noqa: E402
from common import results  # noqa: E402

NAMES = sorted(path.parent.name for path in STUDIES.glob("*/run.py"))
NOT_RUN_YET = {"gpu_prediction", "gpu_speed"}  # nobody has run them on a GPU: they have no table yet


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


class CommandLine(unittest.TestCase):
    """On a copy of the studies, where there is no build, with nothing on the PATH."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name).resolve()
        shutil.copytree(STUDIES, cls.root / "experiments/studies", ignore=shutil.ignore_patterns("__pycache__"))
        cls.before = files_of(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def call(self, script, *arguments):
        done = subprocess.run([sys.executable, "-B", "-X", "importtime", str(self.root / "experiments/studies" / script), *arguments],
                              env={"PATH": "", "HOME": str(self.root)}, cwd=self.root, capture_output=True, text=True, timeout=30)
        self.assertEqual(files_of(self.root), self.before, f"{script} {arguments} wrote something")
        self.assertNotRegex(done.stderr, r"\| +(torch|numpy|matplotlib)\b")
        return done.returncode, done.stdout, "".join(line for line in done.stderr.splitlines(True) if not line.startswith("import time:"))

    def test_help_needs_nothing_and_says_what_a_user_must_know(self):
        for script in [f"{name}/run.py" for name in NAMES] + ["published_runs/calibrate.py"]:
            with self.subTest(script):
                status, out, err = self.call(script, "--help")
                self.assertEqual((status, err), (0, ""))
                for word in ("?", "Needs:", "Takes:", "Writes:", "README.md", "TWOFOLD") + (("--write",) if script.endswith("run.py") else ()):
                    self.assertIn(word, out)

    def test_a_missing_program_is_named_with_the_way_to_build_it(self):
        for name in NAMES:
            with self.subTest(name):
                status, _, err = self.call(f"{name}/run.py")
                self.assertEqual(status, 2)
                self.assertIn(f"{self.root}/build/release", err)
                self.assertIn("cmake --preset release && cmake --build --preset release", err)

    def test_wrong_options_are_refused(self):
        for arguments in (("accuracy/run.py", "--pair=1"), ("memory_tables/run.py", "--write", "--golden"), ("hybrids/run.py", "--only=none"),
                          ("hybrids/run.py", "--write", "--in-memory"), ("gpu_prediction/run.py", "--write", "--quick"), ("gpu_speed/run.py", "--models=none")):
            with self.subTest(arguments):
                status, _, err = self.call(*arguments)
                self.assertEqual(status, 2)
                self.assertIn("error: ", err)


class Files(unittest.TestCase):
    def test_every_study_has_its_files(self):
        self.assertEqual(len(NAMES), 30)
        for name in NAMES:
            with self.subTest(name):
                self.assertGreaterEqual(len((STUDIES / name / "README.md").read_text().splitlines()), 10)
                self.assertTrue(os.access(STUDIES / name / "run.py", os.X_OK))
                self.assertEqual((STUDIES / name / "table.md").exists(), name not in NOT_RUN_YET)

    def test_every_results_json_is_valid(self):
        found = sorted(STUDIES.glob("*/results.json"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(path.parent.name):
                self.assertEqual(results.problems(json.loads(path.read_text()), path.parent.name), [])


class Common(unittest.TestCase):
    def test_what_is_wrong_with_results_is_found(self):
        good = {"study": "s", "command": "c", "rows": [common.row("a", 11, 10, "s", ranks=2), common.row("b", 1.5, None, "B", "none")]}
        self.assertEqual(results.problems(good, "s"), [])
        for row in ({"error": 0.2}, {"error": None}, {"role": "test"}, {"unit": ""}, {"measured": "10"}, {"predicted": float("nan")}, {"name": "b"}):
            with self.subTest(row):
                bad = {**good, "rows": [{**good["rows"][0], **row}, good["rows"][1]]}
                self.assertEqual(len(results.problems(bad, "s")), 1)
        self.assertTrue(results.problems({**good, "rows": []}, "s"))
        self.assertTrue(results.problems(good, "another"))

    def test_what_is_written_is_valid(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            results.write(folder, "run.py --write", [common.row("a", 1 / 3, 1 / 7, "µs"), common.row("b", 2**40, None, "B", "none", at=1 / 3)])
            document = json.loads((folder / "results.json").read_text())
            self.assertEqual(results.problems(document, folder.name), [])
            self.assertEqual([row["predicted"] for row in document["rows"]], [0.3333333333, 2**40])

    def test_numbers_look_alike(self):
        texts = common.count(16384), common.milliseconds(1.88898), common.percent(0.0456), common.signed(0.0456), common.mebibytes(2**31)
        self.assertEqual(texts, ("16,384", "1,888.98 ms", "4.6 %", "+4.6 %", "2,048.00 MiB"))
        self.assertEqual(common.markdown(["a", "b"], [[1, "x"]]), ["| a | b |", "|---|---|", "| 1 | x |"])

    def test_commands_that_fail_or_hang_are_named_with_their_messages(self):
        with self.assertRaises(common.Failed) as failed:
            common.run(["sh", "-c", "echo out; echo why >&2; exit 3"])
        self.assertRegex(str(failed.exception), r"^sh -c .*: exit status 3\nwhy$")
        with self.assertRaises(common.Failed) as failed:
            common.run(["sleep", "60"], timeout=0.2)
        self.assertEqual(str(failed.exception).splitlines()[0], "sleep 60: not done after 0.2 s")
        done = common.run(["sh", "-c", "echo out; exit 3"], statuses=(0, 3))
        self.assertEqual((done.status, done.output), (3, "out\n"))


if __name__ == "__main__":
    unittest.main()
