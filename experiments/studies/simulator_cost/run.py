#!/usr/bin/env python3
"""How much time, memory and disk does the simulator need, and do folded and unfolded ranks give the same figures?"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, milliseconds, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures the program. No GPU.", takes="less than a minute.",
              writes="table.md, results.json and golden.json", golden="40 steps of 8 ranks, folded and unfolded")
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


def measure(twofold, cases):
    """Reports by name, rows of results.json, and whether every bound is met."""
    table = Table("job", "wall time", "at most", "peak memory of one process", "at most", "trace files", "at most", "predicted step")
    reports, rows, problems = {}, [], []
    for name, spec, settings, seconds, gib, megabytes in cases:
        with tempfile.TemporaryDirectory() as out:
            report, ran = twofold.job(study.folder / spec, settings, out=out)
            traces = sum((pathlib.Path(out) / file).stat().st_size for file in ("trace.json", "memory.csv")) / 1e6
        reports[name], memory = report, ran.peak_bytes / 2**30
        if seconds is None:
            continue
        if report["outcome"] != "OK" or ran.seconds > seconds or memory > gib or traces > megabytes:
            problems.append(f"{name}: {report['outcome']}, {ran.seconds:.1f} s, {memory:.2f} GiB, {traces:.1f} MB")
        table.add(name, f"{ran.seconds:.1f} s", f"{seconds} s", f"{memory:.2f} GiB", f"{gib} GiB", f"{traces:.1f} MB", f"{megabytes} MB",
                  milliseconds(report["median_step_seconds"], 3))
        rows.append(row(name, report["median_step_seconds"], None, "s", "none", wall_seconds=ran.seconds, wall_seconds_at_most=seconds,
                        peak_bytes=ran.peak_bytes, peak_gib_at_most=gib, trace_megabytes=traces, trace_megabytes_at_most=megabytes))
    return reports, table, rows, problems


def main():
    options, twofold = study.start()
    reports, table, rows, problems = measure(twofold, SMALL + ([] if options.golden else CASES))
    difference = 0
    for pair in (SMALL,) if options.golden else (SMALL, CASES[:2]):
        found, where = largest_difference(*(reports[case[0]] for case in pair))
        difference = max(difference, found)
        if found > MOST_DIFFERENCE:
            problems.append(f"folded against unfolded: {where}")
    problems += study.hold([(name, None, report["median_step_seconds"]) for name, report in reports.items()])
    if options.golden:
        study.end(problems)
    text = [f"Largest relative difference of any figure, folded against unfolded: {difference:.1e} (at most {MOST_DIFFERENCE:.0e}).", "",
            f"GPT-2 124M where nothing else is said, 4 samples a rank, f32; {os.cpu_count()} cores; report, traces and tables written."]
    study.publish("What the simulator costs", [*table.lines, "", *text], rows)
    study.end(problems)


if __name__ == "__main__":
    main()
