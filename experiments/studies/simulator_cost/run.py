#!/usr/bin/env python3
"""What the simulator costs: wall time, memory and trace files of four simulated jobs, and folded against unfolded figures.

    experiments/studies/simulator_cost/run.py [--write | --golden] [PATH_OF_TWOFOLD]

Calibrated by nothing and validated against nothing: the predicted step times here are from data sheets; what is measured
is the program itself. Fails when a bound stated in the table is not met, or a predicted step is no longer what golden.json has; --write
renews table.md and golden.json beside this file; --golden holds a few ranks and steps, folded against unfolded and against golden.json,
and does nothing else (experiments/studies/common/golden.py).
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
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent / "common"))
import golden  # noqa: E402

GPT2, LLAMA = "gpt2-124m.textproto", "llama3-405b.textproto"
# (name, spec, settings, wall seconds at most, GiB at most, MB of trace.json and memory.csv at most)
CASES = [
    ("64 ranks, 1,000 steps, folded", GPT2, {"fabric.simulated.folding": "ON"}, 10, 4, 50),
    ("64 ranks, 1,000 steps, unfolded", GPT2, {"fabric.simulated.folding": "OFF"}, 60, 4, 50),
    ("1,024 ranks, 1 step, unfolded", GPT2,
     {"fabric.simulated.folding": "OFF", "parallel.dp": 1024, "train.steps": 1, "train.warmup_steps": 0}, 10, 4, 50),
    ("Llama 3.1 405B on 16,384 ranks, 2 steps, folded", LLAMA, {}, 10, 0.45, 50),
]
# Of the gate: as many steps as bring rounding into the clock's last bits. No bounds: the machine may be busy.
SMALL = [(f"8 ranks, 40 steps, {how}", GPT2, {"fabric.simulated.folding": folding, "parallel.dp": 8, "train.steps": 40}, None, None, None)
         for how, folding in (("folded", "ON"), ("unfolded", "OFF"))]
MOST_DIFFERENCE = 1e-9


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
    """The largest relative difference of any two numbers of two reports, and which they are; notes may differ."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        return max((largest_difference(a[k], b[k], f"{path}.{k}") for k in a if k != "notes"), default=(0, ""))
    if isinstance(a, list):
        assert len(a) == len(b), path
        return max((largest_difference(x, y, path) for x, y in zip(a, b)), default=(0, ""))
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        return (abs(a - b) / max(abs(a), abs(b)) if a != b else 0), f"{path}: {a!r} against {b!r}"
    assert a == b, f"{path}: {a} against {b}"
    return 0, ""


def main():
    arguments, write, gate = [a for a in sys.argv[1:] if not a.startswith("--")], "--write" in sys.argv[1:], "--golden" in sys.argv[1:]
    cases = SMALL + ([] if gate else CASES)
    program = arguments[0] if arguments else str(ROOT / "build/release/experiments/program/twofold")
    lines = ["| job | wall time | at most | peak memory of one process | at most | trace files | at most | predicted step |",
             "|---|---|---|---|---|---|---|---|"]
    reports, met = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, spec, settings, seconds, gib, megabytes) in enumerate(cases):
            out = pathlib.Path(folder) / str(i)
            answer = multiprocessing.Queue()
            process = multiprocessing.Process(target=measure, args=(program, spec, settings, out, answer))
            process.start()
            process.join()
            if process.exitcode != 0:
                sys.exit(f"{name}: the program failed")
            wall, memory = answer.get()
            report = json.loads((out / "report.json").read_text())
            reports[name] = report
            if seconds is None:
                continue
            traces = sum((out / file).stat().st_size for file in ("trace.json", "memory.csv")) / 1e6
            met = met and report["outcome"] == "OK" and wall <= seconds and memory <= gib and traces <= megabytes
            lines.append(f"| {name} | {wall:.1f} s | {seconds} s | {memory:.2f} GiB | {gib} GiB | {traces:.1f} MB | {megabytes} MB | "
                         f"{report['median_step_seconds'] * 1e3:.3f} ms |")
            print(lines[-1], flush=True)
    difference = 0
    for pair in (SMALL, CASES[:2]) if not gate else (SMALL,):
        found, where = largest_difference(*(reports[case[0]] for case in pair))
        difference = max(difference, found)
        if found > MOST_DIFFERENCE:
            print(f"folded against unfolded: {where}")
            met = False
    moved = golden.hold(HERE, [(name, None, report["median_step_seconds"]) for name, report in reports.items()], everything=not gate, write=write)
    met = met and not moved
    if gate:
        sys.exit(0 if met else 1)
    lines += ["", f"Largest relative difference of any figure, folded against unfolded: {difference:.1e} (at most {MOST_DIFFERENCE:.0e}).",
              "", f"GPT-2 124M where nothing else is said, 4 samples a rank, f32; {os.cpu_count()} cores; report, traces and tables written."]
    if write:
        (HERE / "table.md").write_text("# What the simulator costs\n\n" + "\n".join(lines) + "\n")
    print("\n".join(["", *lines]))
    sys.exit(0 if met else "a bound is not met")


if __name__ == "__main__":
    main()
