#!/usr/bin/env python3
"""PyTorch's torchrun starts a run on Gloo, which trains like threads, to the bit: torchrun_test.py PATH_OF_TWOFOLD"""
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
TORCHRUN = shutil.which("torchrun")
SPEC = """
model { mlp { inputs: 64 hidden: [128, 128] classes: 8 } }
data { synthetic { samples: 1000 } }
parallel { dp: 2 }
train { micro_batch: 8 global_batch: 64 steps: 5 }
"""


class Torchrun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "my.textproto").write_text(SPEC)

    def call(self, *words):
        result = subprocess.run([*map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def losses(self, name):
        report = json.loads((self.folder / name / "report.json").read_text())
        self.assertEqual((report["outcome"], report["world_size"]), ("OK", 2))
        return [step["loss"] for step in report["steps"]]

    def test_a_run_on_gloo(self):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        # With Python 3.11, PyTorch 1.13 knows no "0" for --redirects and --tee, which are its defaults.
        self.call(TORCHRUN, "--nnodes=1", "--nproc_per_node=2", "--rdzv_backend=c10d", f"--rdzv_endpoint=localhost:{port}",
                  "--redirects=1", "--tee=1", f"--log_dir={self.folder}/logs", "--no_python", PROGRAM, "run", "my.textproto",
                  "--fabric=gloo", "--out=by-torchrun", "--quiet")
        self.call(PROGRAM, "run", "my.textproto", "--fabric=in_memory", "--out=threads", "--quiet")
        self.assertEqual(self.losses("by-torchrun"), self.losses("threads"))


if __name__ == "__main__":
    if TORCHRUN is None:
        print("SKIPPED: torchrun is not installed; scripts/setup.sh installs it (python3-torch)")
        sys.exit(77)
    unittest.main()
