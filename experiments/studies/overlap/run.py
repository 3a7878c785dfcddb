#!/usr/bin/env python3
"""What sharded layouts hide behind computing: predicted and measured, on 4 ranks of one machine.

    experiments/studies/overlap/run.py [--write] [PATH_OF_TWOFOLD]

Ranks sleep for the time that operations and messages are modelled to take (device: EMULATED, links of 2 Gb/s and 50 us), so
that overlap can be seen on fewer cores than ranks. Nothing is calibrated: operations cost what the data sheet of "this-machine"
says, on both sides. Fails when a step time is predicted more than 4 % off, or when prefetching does not at least halve the
exposed communication of FULL_SHARD, predicted or measured. --write renews table.md and the time lines beside this file, of
FULL_SHARD with and without prefetching, the prediction above the measurement.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MOST = 0.04
NO_PREFETCH = {"parallel.prefetch": 0, "parallel.backward_prefetch": "BACKWARD_NONE"}
WITH, WITHOUT = "FULL_SHARD", "FULL_SHARD, no prefetch"
# (name, settings)
CASES = [
    ("NO_SHARD, buckets of 0.5 MiB", {"parallel.sharding": "NO_SHARD", "parallel.bucket_mib": 0.5}),
    ("SHARD_OPTIMIZER", {"parallel.sharding": "SHARD_OPTIMIZER"}),
    ("SHARD_GRAD_OP", {"parallel.sharding": "SHARD_GRAD_OP"}),
    (WITH, {}),
    (WITHOUT, NO_PREFETCH),
    ("FULL_SHARD, prefetch 2", {"parallel.prefetch": 2}),
    ("FULL_SHARD, backward prefetch POST", {"parallel.backward_prefetch": "BACKWARD_POST"}),
    ("FULL_SHARD, kept after forward", {"parallel.reshard_after_forward": "false"}),
    ("FULL_SHARD, no overlap", {"parallel.overlap": "false"}),
    ("FULL_SHARD, 2 micro-batches", {"train.global_batch": 32}),
    ("HYBRID_SHARD in groups of 2", {"parallel.sharding": "HYBRID_SHARD", "parallel.shard_group": 2}),
]


def run(program, fabric, settings, folder, out):
    """The report of a run in `folder`, where no calibration lies."""
    command = [program, "run", str(HERE / "gpt.textproto"), "--quiet", f"--fabric={fabric}", f"--out={out}"]
    for path, value in {**settings, f"fabric.{fabric}.link_gbps": 2, f"fabric.{fabric}.latency_us": 50}.items():
        command += ["--set", f"{path}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    return json.loads((pathlib.Path(folder) / out / "report.json").read_text())


def milliseconds(seconds):
    return f"{seconds * 1e3:.2f} ms"


def main():
    write = "--write" in sys.argv[1:]
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    program = str(pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve())
    lines = ["| layout | predicted step | measured step (p10 to p90) | error | exposed communication, predicted | measured | peak of a rank |",
             "|---|---|---|---|---|---|---|"]
    exposed, failures = {}, []
    for name, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            predicted = run(program, "simulated", settings, folder, "predicted")
            measured = run(program, "in_memory", settings, folder, "measured")
            if write and name in (WITH, WITHOUT):
                subprocess.run([program, "report", "predicted", "measured"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
                picture = HERE / ("prefetch.svg" if name == WITH else "no-prefetch.svg")
                shutil.copy(pathlib.Path(folder) / "measured/timeline.svg", picture)
        for p, m in zip(predicted["ranks"], measured["ranks"], strict=True):
            assert p["peak_bytes"] == m["peak_bytes"] and p["reserved_bytes"] == m["reserved_bytes"], f"{name}: memory differs"
        error = predicted["median_step_seconds"] / measured["median_step_seconds"] - 1
        exposed[name] = [r["exposed_communication_seconds"] for r in (predicted, measured)]
        if abs(error) > MOST:
            failures.append(f"{name}: predicted {100 * error:+.1f} % off")
        lines.append(f"| {name} | {milliseconds(predicted['median_step_seconds'])} | {milliseconds(measured['median_step_seconds'])} "
                     f"({milliseconds(measured['low'])} to {milliseconds(measured['high'])}) | {100 * error:+.2f} % | "
                     f"{milliseconds(exposed[name][0])} | {milliseconds(exposed[name][1])} | {measured['ranks'][0]['peak_bytes']:,} |")
        print(lines[-1], flush=True)
    shares = [w / wo for w, wo in zip(exposed[WITH], exposed[WITHOUT], strict=True)]
    if max(shares) >= 0.5:
        failures.append("prefetching does not halve the exposed communication")
    lines += ["", f"With prefetching, FULL_SHARD exposes {100 * shares[0]:.0f} % (predicted) and {100 * shares[1]:.0f} % (measured) of the "
              "communication that it exposes without: the time lines are in prefetch.svg and no-prefetch.svg, the prediction above.",
              f"Errors are to be at most {100 * MOST:.0f} %. Four ranks are threads on {os.cpu_count()} cores, links have 2 Gb/s and "
              "50 us; memory was equal to the byte."]
    if write:
        (HERE / "table.md").write_text("# What sharded layouts hide: predicted against measured\n\n" + "\n".join(lines) + "\n")
    print("\n".join(["", *lines[-3:]]))
    sys.exit("; ".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
