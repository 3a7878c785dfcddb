#!/usr/bin/env python3
"""What the simulator costs: wall time, memory and trace files of four simulated jobs, and folded against unfolded figures.

    experiments/simulator_cost/run.py [--write] [PATH_OF_TWOFOLD]

Calibrated by nothing and validated against nothing: the predicted step times here are from data sheets; what is measured
is the program itself. Fails when a bound stated in the table is not met; --write renews table.md beside this file.
"""
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GPT2, LLAMA = "gpt2-124m.textproto", "llama3-405b.textproto"
# (name, spec, settings, wall seconds at most, GiB at most, MB of trace.json and memory.csv at most)
CASES = [
    ("64 ranks, 1,000 steps, folded", GPT2, {"fabric.simulated.folding": "ON"}, 10, 4, 50),
    ("64 ranks, 1,000 steps, unfolded", GPT2, {"fabric.simulated.folding": "OFF"}, 60, 4, 50),
    ("1,024 ranks, 1 step, unfolded", GPT2,
     {"fabric.simulated.folding": "OFF", "parallel.dp": 1024, "train.steps": 1, "train.warmup_steps": 0}, 10, 4, 50),
    ("Llama 3.1 405B on 16,384 ranks, 2 steps, folded", LLAMA, {}, 10, 0.45, 50),
]


def measure(program, spec, settings, out, answer):
    """Runs the program in a process of its own, so that its children's memory is its alone."""
    command = [program, "run", str(HERE / spec), "--quiet", f"--out={out}"]
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - start
    answer.put((wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20))


def largest_difference(a, b, path=""):
    """The largest relative difference of any two numbers of two reports; notes may differ."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        return max((largest_difference(a[k], b[k], f"{path}.{k}") for k in a if k != "notes"), default=0)
    if isinstance(a, list):
        assert len(a) == len(b), path
        return max((largest_difference(x, y, path) for x, y in zip(a, b)), default=0)
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        return abs(a - b) / max(abs(a), abs(b)) if a != b else 0
    assert a == b, f"{path}: {a} against {b}"
    return 0


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    program = arguments[0] if arguments else str(ROOT / "build/release/experiments/program/twofold")
    lines = ["| job | wall time | at most | peak memory of one process | at most | trace files | at most | predicted step |",
             "|---|---|---|---|---|---|---|---|"]
    reports, met = [], True
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, spec, settings, seconds, gib, megabytes) in enumerate(CASES):
            out = pathlib.Path(folder) / str(i)
            answer = multiprocessing.Queue()
            process = multiprocessing.Process(target=measure, args=(program, spec, settings, out, answer))
            process.start()
            process.join()
            if process.exitcode != 0:
                sys.exit(f"{name}: the program failed")
            wall, memory = answer.get()
            report = json.loads((out / "report.json").read_text())
            reports.append(report)
            traces = sum((out / file).stat().st_size for file in ("trace.json", "memory.csv")) / 1e6
            met = met and report["outcome"] == "OK" and wall <= seconds and memory <= gib and traces <= megabytes
            lines.append(f"| {name} | {wall:.1f} s | {seconds} s | {memory:.2f} GiB | {gib} GiB | {traces:.1f} MB | {megabytes} MB | "
                         f"{report['median_step_seconds'] * 1e3:.3f} ms |")
            print(lines[-1], flush=True)
    difference = largest_difference(reports[0], reports[1])
    met = met and difference <= 1e-9
    lines += ["", f"Largest relative difference of any figure, folded against unfolded: {difference:.1e} (at most 1e-9).",
              "", f"GPT-2 124M where nothing else is said, 4 samples a rank, f32; {os.cpu_count()} cores; report, traces and tables written."]
    if "--write" in sys.argv[1:]:
        (HERE / "table.md").write_text("# What the simulator costs\n\n" + "\n".join(lines) + "\n")
    print("\n".join(["", *lines]))
    sys.exit(0 if met else "a bound is not met")


if __name__ == "__main__":
    main()
