#!/usr/bin/env python3
"""Runs mpi_benchmark on 2 ranks, prints what the mpi fabric adds to bare blocking MPI calls, and says whether that is at most

  * 5 % from 1 MiB on;
  * 10 microseconds below.

  tests/benchmarks/mpi.py [--repetitions=9] [--min-time=0.05] [--bind-to=core] [--json=FILE] [--out=FILE] [--program=FILE]

Medians over repetitions of the medians of batches, bare and ours by turns. --json keeps what Google Benchmark measured; with a FILE that exists, that is judged and
nothing is run. --out writes the table as Markdown. Exit status: 0 it holds, 1 it does not. Let nothing else run meanwhile.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def measure(options, path):
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(["mpirun", "-n", "2", "--bind-to", options.bind_to, str(options.program),
                    f"--benchmark_repetitions={options.repetitions}", "--benchmark_enable_random_interleaving=true",
                    f"--benchmark_min_time={options.min_time}", f"--benchmark_out={path}", "--benchmark_out_format=json"],
                   env=environment, stdout=subprocess.DEVNULL, check=True)


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--min-time", type=float, default=0.05)
    parser.add_argument("--bind-to", default="core", help="mpirun's --bind-to; its default for two processes is core")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/tests/benchmarks/mpi_benchmark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.json or pathlib.Path(folder) / "benchmark.json"
        if not path.exists():
            measure(options, path)
        rows = json.loads(path.read_text())["benchmarks"]
    medians = {}
    for row in rows:
        if row.get("aggregate_name") == "median":
            operation, size = row["run_name"].split("/")[:2]
            for side in ("bare", "mpi"):
                medians[operation, int(size), side] = row[f"{side}_us"]
    lines = ["| collective | payload | bare MPI | mpi fabric | added | at most |", "|---|---|---|---|---|---|"]
    good = True
    for operation, size in sorted({(o, s) for o, s, _ in medians}):
        bare, ours = medians[operation, size, "bare"], medians[operation, size, "mpi"]
        large = size >= 1 << 20
        met = ours <= 1.05 * bare if large else ours - bare <= 10
        good &= met
        added = f"{100 * (ours / bare - 1):+.1f} %" if large else f"{ours - bare:+.2f} µs"
        lines.append(f"| {operation} | {size_text(size)} | {bare:.2f} µs | {ours:.2f} µs | {added}{'' if met else ' (!)'} "
                     f"| {'5 %' if large else '10 µs'} |")
    text = "\n".join(lines) + f"\n\nThe bounds {'hold' if good else 'do not hold'} (2 ranks, {os.cpu_count()} cores, medians of " \
                              f"{options.repetitions}).\n"
    print(text)
    if options.out:
        options.out.write_text("# What the mpi fabric adds to bare MPI\n\n" + text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
