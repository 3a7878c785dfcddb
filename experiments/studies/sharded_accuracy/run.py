#!/usr/bin/env python3
"""Predicted and measured step times of sharded layouts, on 2 ranks of this machine, on threads and on MPI processes.

    experiments/studies/sharded_accuracy/run.py [--write] [--pairs=3] [PATH_OF_TWOFOLD]

Each pair: `twofold calibrate` on threads and on MPI, then every layout predicted and at once measured, on each fabric, so that
all see the same machine; a row's figures are medians over the pairs. There are two predictions. One knows kernels and links
alone, each measured by itself: the profile without the training jobs that calibration runs. The bounds hold for it: the median
error of the layouts at most 10 %, or every prediction inside the measured p10 to p90. The other knows those jobs, too, which are
DDP ones of other sizes (experiments/program/calibrate/jobs.cc). No row of the table calibrated anything. --write renews table.md.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
SPEC = HERE / "gpt.textproto"
LAYOUTS = ["NO_SHARD", "SHARD_OPTIMIZER", "SHARD_GRAD_OP", "FULL_SHARD"]
FABRICS = ["in_memory", "mpi"]
MOST = 0.10


def run(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")


def report_of(command, out):
    run([*command, "--quiet", f"--out={out}"])
    return json.loads((out / "report.json").read_text())


def without_jobs(profile):
    """The profile's text without its blocks `training { ... }`."""
    text, kept, place = profile.read_text(), [], 0
    for found in re.finditer(r"^training\s*:?\s*\{", text, re.MULTILINE):
        kept.append(text[place:found.start()])
        depth, place = 1, found.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            place += 1
    return "".join(kept) + text[place:]


def main():
    options = {a.split("=")[0]: a.split("=")[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = arguments[0] if arguments else str(ROOT / "build/release/experiments/program/twofold")
    pairs, started = int(options.get("--pairs", 3)), time.monotonic()
    found = {(fabric, layout): [] for fabric in FABRICS for layout in LAYOUTS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        full, alone = folder / "profile.textproto", folder / "alone.textproto"
        for pair in range(pairs):
            full.unlink(missing_ok=True)
            run([program, "calibrate", f"--out={full}"])
            run([program, "launch", "--ranks=2", "--", "calibrate", f"--out={full}"])
            alone.write_text(without_jobs(full))
            for fabric, layout in found:
                spec = ["run", SPEC, f"--set=parallel.sharding={layout}"]
                if layout == "NO_SHARD":
                    spec.append("--set=parallel.bucket_mib=2")
                predicted = [report_of([program, *spec, "--fabric=simulated", f"--set=fabric.simulated.profile={profile}",
                                        f"--set=fabric.simulated.links={fabric}"], folder / "predicted") for profile in (alone, full)]
                launch = ["launch", "--ranks=2", "--fabric=mpi", "--"] if fabric == "mpi" else []
                measured = report_of([program, *launch, *spec, f"--fabric={fabric}"], folder / "measured")
                for p, m in zip(predicted[0]["ranks"], measured["ranks"], strict=True):
                    assert p["peak_bytes"] == m["peak_bytes"] and p["reserved_bytes"] == m["reserved_bytes"], f"{layout}: memory differs"
                found[fabric, layout].append((*predicted, measured))
                errors = [p["median_step_seconds"] / measured["median_step_seconds"] - 1 for p in predicted]
                print(f"pair {pair + 1} of {pairs}: {layout} on {fabric}: measured {measured['median_step_seconds'] * 1e3:.1f} ms, "
                      f"{errors[0]:+.1%}, with jobs {errors[1]:+.1%}", file=sys.stderr, flush=True)
    lines = ["| layout | fabric | predicted, kernels and links alone | measured p50 | p10 | p90 | error | error, training jobs known |",
             "|---|---|---|---|---|---|---|---|"]
    errors, inside = [], []
    for (fabric, layout), rows in found.items():
        low, high, measured, predicted = (statistics.median(values) for values in zip(
            *((m["low"], m["high"], m["median_step_seconds"], a["median_step_seconds"]) for a, _, m in rows)))
        error, with_jobs = (statistics.median(r[i]["median_step_seconds"] / r[2]["median_step_seconds"] - 1 for r in rows) for i in (0, 1))
        if layout != "NO_SHARD":
            errors.append(abs(error))
            inside.append(low <= predicted <= high)
        lines.append(f"| {layout} | {fabric} | {predicted * 1e3:.1f} ms | {measured * 1e3:.1f} ms | {low * 1e3:.1f} ms | "
                     f"{high * 1e3:.1f} ms | {error:+.1%} | {with_jobs:+.1%} |")
    median = statistics.median(errors)
    met = median <= MOST or all(inside)
    lines += ["", f"Sharded layouts, kernels and links alone: median error {median:.1%} (at most {MOST:.0%}), worst {max(errors):.1%}; "
              f"{sum(inside)} of {len(inside)} inside the measured p10 to p90: {'met' if met else 'NOT MET'}.",
              f"{pairs} pairs in {(time.monotonic() - started) / 60:.0f} minutes, 2 ranks, {os.cpu_count()} cores; memory was equal to the byte."]
    if "--write" in options:
        (HERE / "table.md").write_text("# Step times of sharded layouts: predicted against measured\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))
    sys.exit(0 if met else "the bound is not met")


if __name__ == "__main__":
    main()
