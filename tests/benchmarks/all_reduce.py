#!/usr/bin/env python3
"""Runs all_reduce_benchmark on 2 ranks, prints one table of medians and says whether the in-memory fabric

  * moves at least 70 % of what a copy of the same bytes reaches, at 64 MiB;
  * is no slower than bare Open MPI and than Gloo (the faster of its algorithms) at any size.

  tests/benchmarks/all_reduce.py [--repetitions=9] [--min-time=0.1] [--json=FILE] [--out=FILE] [--note=TEXT] [--program=FILE]

--json keeps what Google Benchmark measured; with a FILE that exists, nothing is run and that is judged. --out writes the
table as Markdown, with --note=TEXT under it (how the machine was). Exit status: 0 both hold, 1 one does not, 2 wrong input. Let nothing else run meanwhile.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

OURS = "in_memory"
COPY_SHARE, COPY_BYTES = 0.70, 64 << 20


def measure(program, path, repetitions, min_time):
    if not program.exists():
        fail(f"{program} does not exist; build it: cmake --build --preset release --target all_reduce_benchmark")
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "-n", "2", "--bind-to", "none", str(program), f"--benchmark_repetitions={repetitions}",
               "--benchmark_enable_random_interleaving=true", f"--benchmark_min_time={min_time}",
               "--benchmark_color=false", f"--benchmark_out={path}", "--benchmark_out_format=json"]
    if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode != 0:
        fail("this command failed: " + " ".join(command))


def fail(message):
    print(f"all_reduce: {message}", file=sys.stderr)
    sys.exit(2)


def medians(document):
    """{row: {bytes: seconds}}"""
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    table = {}
    for b in document["benchmarks"]:
        if b.get("error_occurred"):
            fail(f"{b['name']}: {b['error_message']}")
        if b.get("aggregate_name") != "median":
            continue
        row, size = b["run_name"].split("/")[:2]
        table.setdefault(row, {})[int(size)] = b["real_time"] * scale[b["time_unit"]]
    if OURS not in table or "copy" not in table:
        fail("no medians of in_memory and copy: run with --benchmark_repetitions")
    return table


def text_of(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def size_of(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def processor():
    try:
        names = [l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
        return f"{len(names)} cores of {names[0]}"
    except (OSError, IndexError):
        return f"{os.cpu_count()} cores of {platform.machine()}"


def judge(table):
    """Markdown lines, and whether both claims hold."""
    rows = [r for r in ("copy", OURS, "bare_open_mpi", "gloo_ring", "gloo_bcube") if r in table]
    others = {"Open MPI": [r for r in rows if r == "bare_open_mpi"], "Gloo": [r for r in rows if r.startswith("gloo")]}
    others = {name: of for name, of in others.items() if of}
    heads = ["size", *rows, *(f"{OURS} / {name}" for name in others)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    slower = []
    for size, ours in sorted(table[OURS].items()):
        ratios = {name: ours / min(table[r][size] for r in of) for name, of in others.items()}
        slower += [f"{size_of(size)} than {name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio > 1]
        lines.append("| " + " | ".join([size_of(size), *(text_of(table[r][size]) for r in rows),
                                        *(f"{ratio:.2f}" for ratio in ratios.values())]) + " |")
    share = table["copy"][COPY_BYTES] / table[OURS][COPY_BYTES]
    lines += ["", f"* {size_of(COPY_BYTES)} moves at {share:.0%} of a copy's rate (at least {COPY_SHARE:.0%} is required): "
                  f"{'holds' if share >= COPY_SHARE else 'does not hold'}"]
    for name in ("Open MPI", "Gloo"):
        if name not in others:
            lines.append(f"* no comparison with {name}: the build has none")
    lines.append(f"* no slower than {' and '.join(others)} at any size: "
                 + ("holds" if not slower else "does not hold, slower at " + ", ".join(slower)))
    return lines, share >= COPY_SHARE and not slower and len(others) == 2


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--min-time", type=float, default=0.1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--note", default="")
    parser.add_argument("--program", type=pathlib.Path,
                        default=here.parent.parent / "build/release/tests/benchmarks/all_reduce_benchmark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.json or pathlib.Path(folder) / "all_reduce.json"
        if not path.exists():
            measure(arguments.program, path, arguments.repetitions, arguments.min_time)
        document = json.loads(path.read_text())
    lines, holds = judge(medians(document))
    repetitions = max(b.get("repetitions", 1) for b in document["benchmarks"])
    text = "\n".join(["# All-reduce of f32, sum, in place, 2 ranks on one machine", "",
                      f"Medians of {repetitions} repetitions in one run on {processor()}; written by "
                      "tests/benchmarks/all_reduce.py. The in-memory ranks are threads; Open MPI's and Gloo's (TCP over the "
                      "loopback) are processes.", "", *lines, *(["", arguments.note] if arguments.note else []), ""])
    print(text, end="")
    if arguments.out:
        arguments.out.write_text(text)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
