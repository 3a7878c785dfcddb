#!/usr/bin/env python3
"""include_graph.py finds what it is for: an include of a floor above, a circle of folders, a spec in strategies, and a folder that is no checkout."""
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
            path.write_text(included if isinstance(included, str) else "".join(f'#include "{other}"\n' for other in included))
        result = subprocess.run([sys.executable, str(TOOL), folder], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


FINE = {f"core/folder{i}/a.h": ["core/folder0/b.h"] for i in range(30)}
CASES = [
    ("a checkout without faults", FINE, 0, "30 folders, 0 problems"),
    ("an include upward", {**FINE, "core/folder1/a.h": ["strategies/trainer.h"]}, 1, "core/folder1 must not include strategies:\n  core/folder1/a.h:1"),
    ("the simulator in a backend of real ranks", {**FINE, "backends/mpi/a.h": ["sim/engine.h"]}, 1, "backends/mpi must not include sim"),
    ("a circle", {**FINE, "core/folder0/b.h": ["core/folder1/a.h"], "core/folder1/a.h": ["core/folder2/a.h"]}, 1,
     "core/folder0, core/folder1, core/folder2 include each other"),
    ("a circle within strategies", {**FINE, "strategies/a/a.h": ["strategies/b/b.h"], "strategies/b/b.cc": ["strategies/a/a.h"]}, 1,
     "strategies/a, strategies/b include each other"),
    ("files that read specs", {**FINE, **{f"strategies/{name}": "spec::Spec s;" for name in ("from_spec.h", "from_spec.cc", "models/a.cc")}}, 0, " 0 problems"),
    ("a spec in a header", {**FINE, "strategies/models/a.h": "\nspec::Spec s;"}, 1, "must not know specs, nor their headers messages:\n  strategies/models/a.h:2"),
    ("a spec in a source", {**FINE, "strategies/a/from_spec.cc": ["core/proto/spec.pb.h"]}, 1, "  strategies/a/from_spec.cc:1"),
    ("a message in a header", {**FINE, "strategies/a.h": ["core/proto/report.pb.h"]}, 1, "  strategies/a.h:1"),
    ("a message in a source", {**FINE, "strategies/a.cc": ["core/proto/report.pb.h"]}, 0, " 0 problems"),
    ("no checkout", {"core/a.h": []}, 2, "not a checkout of Twofold?"),
]
failures = [f"{name}: exit status {status}, wanted {want}\n{output}" for name, files, want, text in CASES
            for status, output in [run(files)] if status != want or text not in output]
print("\n".join([*failures, f"{len(CASES)} cases, {len(failures)} failures"]))
sys.exit(1 if failures else 0)
