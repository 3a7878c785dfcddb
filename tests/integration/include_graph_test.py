#!/usr/bin/env python3
"""include_graph.py finds what it is for: an include of a floor above, a circle of folders, and a folder that is no checkout."""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent / "include_graph.py"


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, included in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f'#include "{other}"\n' for other in included))
        result = subprocess.run([sys.executable, str(TOOL), folder], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


FINE = {f"core/folder{i}/a.h": ["core/folder0/b.h"] for i in range(30)}
CASES = [
    ("a checkout without faults", FINE, 0, "30 folders, 0 problems"),
    ("an include upward", {**FINE, "core/folder1/a.h": ["strategies/trainer.h"]}, 1, "core/folder1 must not include strategies:\n  core/folder1/a.h:1"),
    ("the simulator in a backend of real ranks", {**FINE, "backends/mpi/a.h": ["sim/engine.h"]}, 1, "backends/mpi must not include sim"),
    ("a circle", {**FINE, "core/folder0/b.h": ["core/folder1/a.h"], "core/folder1/a.h": ["core/folder2/a.h"]}, 1,
     "core/folder0, core/folder1, core/folder2 include each other"),
    ("no checkout", {"core/a.h": []}, 2, "not a checkout of Twofold?"),
]
failures = [f"{name}: exit status {status}, wanted {want}\n{output}" for name, files, want, text in CASES
            for status, output in [run(files)] if status != want or text not in output]
print("\n".join([*failures, f"{len(CASES)} cases, {len(failures)} failures"]))
sys.exit(1 if failures else 0)
