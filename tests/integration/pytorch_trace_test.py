#!/usr/bin/env python3
"""A job that Debian's PyTorch trains over Gloo on two ranks, imported from its profiler's traces: pytorch_trace_test.py PATH_OF_TWOFOLD"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for
SIZES = {"layers": 2, "hidden": 32, "heads": 2, "sequence": 32, "steps": 6}


class PyTorchTrace(unittest.TestCase):
    def test_operators_of_the_cpu_are_the_parts_of_a_step(self):
        with tempfile.TemporaryDirectory() as scratch:
            result = subprocess.run([PYTHON, ROOT / "experiments/studies/peers/trace.py", f"--twofold={PROGRAM}", f"--out={scratch}", "--format=json",
                                     *(f"--{k}={v}" for k, v in SIZES.items())], capture_output=True, text=True, timeout=200)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            theirs = json.loads(pathlib.Path(scratch, "pytorch/report.json").read_text())
            ours = json.loads(pathlib.Path(scratch, "twofold/report.json").read_text())
        self.assertEqual((theirs["world_size"], theirs["device"], len(theirs["steps"])), (2, "CPU", SIZES["steps"] - SIZES["steps"] // 2))
        self.assertEqual(theirs["parameters"], ours["parameters"])
        calls = {k["kernel"]: k["count"] for k in theirs["kernels"]}
        # Four products of each layer forward (query, key and value are one) and one of the head; each twice more backward, by weight and input.
        self.assertGreaterEqual(sum(n for name, n in calls.items() if name in ("aten::mm", "aten::addmm")), 3 * (4 * SIZES["layers"] + 1) - 1, calls)
        self.assertIn("Optimizer.step#AdamW.step: ", "".join(calls))
        self.assertEqual([c["operation"] for c in theirs["collectives"]], ["all_reduce"])

        kernels = sum(k["seconds"] for k in theirs["kernels"])
        exposed = theirs["waiting_seconds"] + theirs["exposed_other_seconds"] + sum(c["exposed_seconds"] for c in theirs["collectives"])
        host = theirs["traced_step_seconds"] - kernels - exposed
        self.assertGreater(min(kernels, exposed, host), 0)
        compared = json.loads(result.stdout)
        for side in ("predicted", "measured"):  # the names of the columns; both runs were measured
            value = {row["name"]: row[side] for row in compared["values"]}
            parts = {row["name"]: row[side] for row in compared["step_parts"]}
            of_kernels, of_exposed = (sum(row[side] for row in compared[key]) for key in ("kernels", "exposed"))
            self.assertAlmostEqual(sum(parts.values()), value["step time"], delta=1e-9)
            self.assertAlmostEqual(of_kernels, parts["kernels"], delta=1e-9)
            self.assertAlmostEqual(of_exposed, parts["exposed communication"], delta=1e-9)
        self.assertEqual({"products", "attention", "norms", "element by element", "embedding and loss", "optimizer"},
                         {row["name"] for row in compared["kernels"]})
        self.assertAlmostEqual(sum(row["measured"] for row in compared["kernels"]), kernels, delta=1e-9)


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode:
        print("SKIPPED: PyTorch is not installed; scripts/setup.sh installs it (python3-torch)")
        sys.exit(77)
    unittest.main()
