#!/usr/bin/env python3
"""Hybrids of model and data parallelism: predicted against measured step times and schedules, with real communication.

    experiments/studies/hybrids/run.py [--write] [--reuse] [--in-memory] [--only=NAME] [PATH_OF_TWOFOLD]

Eight hybrids of 4 and 8 ranks, on two real fabrics. In memory: ranks are threads, links of 2 Gb/s and 50 us, messages sleep for
what they take on them. On the miniature cluster of experiments/studies/testbed: ranks are MPI processes on hosts of their own (network
namespaces), one star of shaped cables, devices ten times slower. Ranks compute nothing and sleep for what operations are
modelled to take (device: EMULATED), so that schedules can be seen on fewer cores than ranks.
Predicted by the simulated fabric. In memory nothing is calibrated; on the testbed `twofold calibrate` measures messages between
pairs of hosts and never a collective or a step, and the cluster file that it writes is all that the predictions know.
Validation: every row. Fails when the median error is above 4 % or the worst above 10 %, or when the memory of a rank differs.

--write renews table.md beside this file, what was measured in measured/, and the schedules of pipelines, each prediction above its
measurement; --reuse predicts from what lies there; --in-memory leaves the testbed out. The testbed needs root (see
experiments/studies/testbed/README.md), about ten minutes, and nothing else that wants the cores.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
TESTBED = ROOT / "experiments/studies/testbed/testbed.py"
MEASURED = HERE / "measured"
MEDIAN, WORST = 0.04, 0.10
EAGER = 32 << 20  # bytes: larger than any message, as in experiments/studies/testbed
INTERLEAVED = {"parallel.schedule": "INTERLEAVED_ONE_F_ONE_B", "parallel.virtual_stages": 2}


def axes(**degrees):
    return {f"parallel.{axis}": degree for axis, degree in degrees.items()}


# (file name, name, ranks, spec, settings)
CASES = [
    ("tp2-sp-dp2-zero2", "tp 2 with sequence parallelism, dp 2 with ZeRO-2", 4, "gpt",
     {**axes(tp=2, dp=2), "parallel.sequence_parallel": "true", "parallel.sharding": "ZERO_2"}),
    ("pp2-1f1b-dp2-zero1", "pp 2 (1F1B), dp 2 with ZeRO-1", 4, "gpt", {**axes(pp=2, dp=2), "parallel.sharding": "ZERO_1"}),
    ("pp2-interleaved-tp2", "pp 2 (interleaved, 2 chunks a stage), tp 2", 4, "gpt", {**axes(pp=2, tp=2), **INTERLEAVED}),
    ("cp2-dp2", "cp 2, dp 2 with buckets of 0.5 MiB", 4, "gpt", {**axes(cp=2, dp=2), "parallel.bucket_mib": 0.5}),
    ("pp2-1f1b-dp2-tp2", "pp 2 (1F1B), dp 2, tp 2", 8, "gpt", axes(pp=2, dp=2, tp=2)),
    ("pp4-zero-bubble-dp2", "pp 4 (ZB-H1), dp 2", 8, "gpt", {**axes(pp=4, dp=2), "parallel.schedule": "ZERO_BUBBLE_H1"}),
    ("tp2-dp4-zero3", "tp 2, dp 4 with ZeRO-3", 8, "gpt", {**axes(tp=2, dp=4), "parallel.sharding": "ZERO_3"}),
    ("ep4-dp4-pp2", "mixture of experts: ep 4 within dp 4, pp 2 (GPipe)", 8, "moe", {**axes(pp=2, dp=4, ep=4), "parallel.schedule": "GPIPE"}),
]
IN_MEMORY = {"link_gbps": 2, "latency_us": 50}
SLOWER = {"emulated.speed": 0.1}  # on the testbed, whose cables are as much slower


def sets(settings):
    return [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]


def report(folder):
    return json.loads((folder / "report.json").read_text())


def run(program, fabric, case, settings, out, launcher=()):
    spec, own = case[3], case[4]
    command = [*launcher, program, "run", str(HERE / f"{spec}.textproto"), "--quiet", f"--fabric={fabric}", f"--out={out}", *sets({**own, **settings})]
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, cwd=out.parent)
    return report(out)


def testbed(*arguments):
    return subprocess.run([str(TESTBED), *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


# ---- One fabric each: yields (case, measured, predicted) and leaves both runs' folders for the picture ----
def in_memory(program, cases, folder, reuse):
    links = {f"fabric.in_memory.{k}": v for k, v in IN_MEMORY.items()}
    for case in cases:
        predicted = run(program, "simulated", case, {f"fabric.simulated.{k}": v for k, v in IN_MEMORY.items()}, folder / "predicted")
        kept = MEASURED / f"in_memory-{case[0]}.json"
        measured = json.loads(kept.read_text()) if reuse else run(program, "in_memory", case, links, folder / "measured")
        yield case, measured, predicted


def on_testbed(program, cases, folder, reuse):
    for hosts in sorted({case[2] for case in cases}):
        kept = MEASURED / f"star-{hosts}.textproto"
        cluster = kept if reuse else folder / kept.name
        if not reuse:
            testbed("down")
            testbed("up", f"--hosts={hosts}", "--topology=star")
        try:
            if not reuse:
                structure = folder / "structure.textproto"
                structure.write_text(testbed("cluster"))
                launcher = [TESTBED, "run", "--realtime", f"--eager-bytes={EAGER}", "--"]
                print(f"testbed of {hosts} hosts: calibrating", file=sys.stderr, flush=True)
                subprocess.run([*map(str, launcher), program, "calibrate", "--fabric=mpi", "--quick", f"--cluster={structure}", f"--cluster-out={cluster}"],
                               check=True, stdout=subprocess.DEVNULL)
            for case in cases:
                if case[2] != hosts:
                    continue
                predicted = run(program, "simulated", case, {**SLOWER, "fabric.simulated.cluster": cluster}, folder / "predicted")
                kept = MEASURED / f"testbed-{case[0]}.json"
                measured = json.loads(kept.read_text()) if reuse else run(program, "mpi", case, SLOWER, folder / "measured", launcher)
                yield case, measured, predicted
        finally:
            if not reuse:
                testbed("down")


KEPT = ("median_step_seconds", "low", "high", "exposed_communication_seconds", "bubble_fraction")


def keep(fabric, case, measured):
    ranks = [{k: rank[k] for k in ("peak_bytes", "reserved_bytes")} for rank in measured["ranks"]]
    (MEASURED / f"{fabric}-{case[0]}.json").write_text(json.dumps({**{k: measured[k] for k in KEPT}, "ranks": ranks}, indent=1) + "\n")


def same_memory(case, measured, predicted):
    return [f"{case[1]}: rank {rank}: {key} is {p[key]} predicted, {m[key]} measured"
            for rank, (p, m) in enumerate(zip(predicted["ranks"], measured["ranks"], strict=True))
            for key in ("peak_bytes", "reserved_bytes") if p[key] != m[key]]


def milliseconds(seconds):
    return f"{seconds * 1e3:.2f} ms"


def line(where, case, measured, predicted):
    error = predicted["median_step_seconds"] / measured["median_step_seconds"] - 1
    cells = [where, case[1], str(case[2]), milliseconds(predicted["median_step_seconds"]),
             f"{milliseconds(measured['median_step_seconds'])} ({milliseconds(measured['low'])} to {milliseconds(measured['high'])})", f"{100 * error:+.2f} %",
             milliseconds(predicted["exposed_communication_seconds"]), milliseconds(measured["exposed_communication_seconds"])]
    pipeline = case[4].get("parallel.pp", 1) > 1
    cells += [f"{100 * r['bubble_fraction']:.1f} %" if pipeline else "-" for r in (predicted, measured)]
    return error, "| " + " | ".join(cells) + " |"


def main():
    flags = {a for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = str(pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve())
    reuse, write = "--reuse" in flags, "--write" in flags
    only = [flag.partition("=")[2] for flag in flags if flag.startswith("--only=")]
    if write and (only or "--in-memory" in flags):
        sys.exit("--write: the table has all rows; leave --only and --in-memory out")
    cases = [case for case in CASES if not only or case[0] in only]
    fabrics = [("in_memory", "in memory", in_memory)] + ([] if "--in-memory" in flags else [("testbed", "testbed", on_testbed)])
    if write:
        MEASURED.mkdir(exist_ok=True)
    lines = ["| fabric | hybrid | ranks | predicted step | measured step (p10 to p90) | error | exposed communication, predicted | measured | bubble, predicted | measured |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    errors, of_memory, pictures = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for fabric, where, both in fabrics:
            for case, measured, predicted in both(program, cases, folder, reuse):
                error, text = line(where, case, measured, predicted)
                errors.append(abs(error)), lines.append(text), print(text, flush=True)
                of_memory += same_memory(case, measured, predicted)
                picture = HERE / f"{case[0]}-{fabric}.svg"
                if write and not reuse:
                    keep(fabric, case, measured)
                    if fabric == "testbed":
                        shutil.copy(folder / f"star-{case[2]}.textproto", MEASURED)
                    if case[4].get("parallel.pp", 1) > 1:
                        subprocess.run([program, "report", str(folder / "predicted"), str(folder / "measured")], check=True, stdout=subprocess.DEVNULL)
                        shutil.copy(folder / "measured/schedule.svg", picture)
                if picture.exists():
                    pictures.append(f"![{case[1]}, {where}]({picture.name})")
    median, worst = statistics.median(errors), max(errors)
    failures = list(of_memory)
    if median > MEDIAN or worst > WORST:
        failures.append(f"median error {100 * median:.2f} %, worst {100 * worst:.2f} %")
    lines += ["", f"Errors of step times: median {100 * median:.2f} % (at most {100 * MEDIAN:.0f} %), worst {100 * worst:.2f} % (at most {100 * WORST:.0f} %), on {os.cpu_count()} cores.",
              "In memory: threads, links of 2 Gb/s and 50 us, nothing calibrated. Testbed: MPI processes on hosts of a star, calibrated by messages between pairs",
              f"of hosts alone, devices at {SLOWER['emulated.speed']:g} of the speed. Memory was {'NOT equal: ' + '; '.join(of_memory) if of_memory else 'equal to the byte on every rank.'}",
              "Bubbles: the share of the step that stages idle for, waiting for messages included.", "",
              "Schedules, each prediction above its measurement, on one scale:", "", *pictures]
    if write:
        (HERE / "table.md").write_text("# Hybrids: predicted against measured\n\n" + "\n".join(lines) + "\n")
    print("\n".join(["", lines[len(lines) - 7 - len(pictures)]]))
    sys.exit("; ".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
