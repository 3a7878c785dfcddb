#!/usr/bin/env python3
"""The lab runs as its page says.

    tests/integration/lab_test.py PATH_OF_TWOFOLD

`examples/lab/run.sh --short` runs all steps with a tiny network, in a temporary folder. The commands that `--print` prints are those of
docs/lab.md.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "examples/lab/run.sh"
PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())


def lab(*words, folder):
    return subprocess.run([RUN, *words], cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "TWOFOLD": PROGRAM})


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
        shown = [words(line) for line in page.splitlines() if re.match(r"twofold (run|sweep|calibrate)\b", line)]
        self.assertGreaterEqual(len(shown), 7)
        for command in shown:
            self.assertIn(command, run)

    def test_refuses_unknown_words(self):
        result = lab("7", folder=".")
        self.assertEqual(result.returncode, 2)
        self.assertIn('"7": must be a step, 1 to 6', result.stderr)


if __name__ == "__main__":
    unittest.main()
