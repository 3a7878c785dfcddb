#!/usr/bin/env python3
"""How far are predicted step times and schedules of hybrids of model and data parallelism from those with real communication?"""
import collections
import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import (STEP_COLUMNS, Study, Table, error_summary, exposed_cells, memory_differences, percent, predict_and_measure, progress, read_json,  # noqa: E402
                    step_cells, step_row, testbed)

study = Study(__file__, __doc__, needs="`twofold` with MPI, and this machine to itself: it measures emulated ranks. The testbed needs root "
              "(experiments/studies/testbed/README.md). --reuse only simulates. No GPU.", takes="about ten minutes; --reuse seconds.",
              writes="table.md, results.json, measured/ and the pictures of schedules")
study.option("--reuse", action="store_true", help="measure nothing: predict, and compare with what is in measured/")
study.option("--in-memory", action="store_true", help="leave out the testbed")
study.option("--only", action="append", default=[], metavar="NAME", help="the case of this file name; may be repeated")
MEASURED = study.folder / "measured"
MEDIAN, WORST = 0.04, 0.10
INTERLEAVED = {"parallel.schedule": "INTERLEAVED_ONE_F_ONE_B", "parallel.virtual_stages": 2}
Case = collections.namedtuple("Case", "file name ranks spec settings")


def axes(**degrees):
    return {f"parallel.{axis}": degree for axis, degree in degrees.items()}


# (file name, name, ranks, spec, settings)
CASES = [Case(*case) for case in [
    ("tp2-sp-dp2-zero2", "tp 2 with sequence parallelism, dp 2 with ZeRO-2", 4, "gpt",
     {**axes(tp=2, dp=2), "parallel.sequence_parallel": "true", "parallel.sharding": "ZERO_2"}),
    ("pp2-1f1b-dp2-zero1", "pp 2 (1F1B), dp 2 with ZeRO-1", 4, "gpt", {**axes(pp=2, dp=2), "parallel.sharding": "ZERO_1"}),
    ("pp2-interleaved-tp2", "pp 2 (interleaved, 2 chunks a stage), tp 2", 4, "gpt", {**axes(pp=2, tp=2), **INTERLEAVED}),
    ("cp2-dp2", "cp 2, dp 2 with buckets of 0.5 MiB", 4, "gpt", {**axes(cp=2, dp=2), "parallel.bucket_mib": 0.5}),
    ("pp2-1f1b-dp2-tp2", "pp 2 (1F1B), dp 2, tp 2", 8, "gpt", axes(pp=2, dp=2, tp=2)),
    ("pp4-zero-bubble-dp2", "pp 4 (ZB-H1), dp 2", 8, "gpt", {**axes(pp=4, dp=2), "parallel.schedule": "ZERO_BUBBLE_H1"}),
    ("tp2-dp4-zero3", "tp 2, dp 4 with ZeRO-3", 8, "gpt", {**axes(tp=2, dp=4), "parallel.sharding": "ZERO_3"}),
    ("ep4-dp4-pp2", "mixture of experts: ep 4 within dp 4, pp 2 (GPipe)", 8, "moe", {**axes(pp=2, dp=4, ep=4), "parallel.schedule": "GPIPE"}),
]]
IN_MEMORY = {"link_gbps": 2, "latency_us": 50}
SLOWER = {"emulated.speed": 0.1}  # on the testbed, whose cables are as much slower


def job(twofold, fabric, case, settings, folder, start=()):
    out = folder / ("predicted" if fabric == "simulated" else "measured")
    return twofold.report(study.folder / f"{case.spec}.textproto", {**case.settings, **settings}, f"--fabric={fabric}", out=out, start=start)


# ---- One fabric each: yields (case, predicted, measured) and leaves both runs' folders for the picture ----
def in_memory(twofold, cases, folder):
    for case in cases:
        yield case, *predict_and_measure(twofold, study.folder / f"{case.spec}.textproto", case.settings, IN_MEMORY, folder)


def on_testbed(twofold, cases, folder):
    for ranks in sorted({case.ranks for case in cases}):
        with testbed(ranks, "--topology=star") as (structure, start):
            (folder / "structure.textproto").write_text(structure)
            cluster = folder / f"star-{ranks}.textproto"
            progress(f"testbed of {ranks} hosts: calibrating")
            twofold("calibrate", "--fabric=mpi", "--quick", f"--cluster={folder}/structure.textproto", f"--cluster-out={cluster}", start=start)
            for case in (case for case in cases if case.ranks == ranks):
                predicted = job(twofold, "simulated", case, {**SLOWER, "fabric.simulated.cluster": cluster}, folder)
                yield case, predicted, job(twofold, "mpi", case, SLOWER, folder, start)


def reused(fabric):
    """The same, with what was measured before."""
    def pairs(twofold, cases, folder):
        for case in sorted(cases, key=lambda case: case.ranks):
            settings = ({**SLOWER, "fabric.simulated.cluster": MEASURED / f"star-{case.ranks}.textproto"} if fabric == "testbed" else
                        {f"fabric.simulated.{key}": value for key, value in IN_MEMORY.items()})
            yield case, job(twofold, "simulated", case, settings, folder), read_json(MEASURED / f"{fabric}-{case.file}.json")
    return pairs


KEPT = ("median_step_seconds", "low", "high", "exposed_communication_seconds", "bubble_fraction")


def keep(twofold, fabric, case, measured, folder):
    """Renews measured/ and the schedule's picture."""
    ranks = [{key: rank[key] for key in ("peak_bytes", "reserved_bytes")} for rank in measured["ranks"]]
    MEASURED.mkdir(exist_ok=True)
    (MEASURED / f"{fabric}-{case.file}.json").write_text(json.dumps({**{key: measured[key] for key in KEPT}, "ranks": ranks}, indent=1) + "\n")
    if fabric == "testbed":
        shutil.copy(folder / f"star-{case.ranks}.textproto", MEASURED)
    if case.settings.get("parallel.pp", 1) > 1:
        twofold("report", folder / "predicted", folder / "measured")
        shutil.copy(folder / "measured/schedule.svg", study.folder / f"{case.file}-{fabric}.svg")


def compare(twofold, options, table, folder):
    """Rows of results.json, the page's pictures, and what is wrong with memory."""
    cases = [case for case in CASES if not options.only or case.file in options.only]
    fabrics = [("in_memory", "in memory", in_memory)] + ([] if options.in_memory else [("testbed", "testbed", on_testbed)])
    for fabric, where, pairs in fabrics:
        for case, predicted, measured in (reused(fabric) if options.reuse else pairs)(twofold, cases, folder):
            bubbles = [r["bubble_fraction"] if case.settings.get("parallel.pp", 1) > 1 else None for r in (predicted, measured)]
            table.add(where, case.name, case.ranks, *step_cells(predicted, measured), *exposed_cells(predicted, measured),
                      *("-" if b is None else percent(b) for b in bubbles))
            if options.write and not options.reuse:
                keep(twofold, fabric, case, measured, folder)
            picture = study.folder / f"{case.file}-{fabric}.svg"
            yield (step_row(f"{where}: {case.name}", predicted, measured, fabric=fabric, ranks=case.ranks, predicted_bubble=bubbles[0], measured_bubble=bubbles[1]),
                   [f"![{case.name}, {where}]({picture.name})"] if picture.exists() else [], memory_differences(case.name, predicted, measured))


def wrong(options):
    if options.write and (options.only or options.in_memory):
        return "--write: the table has all rows; leave --only and --in-memory out"
    unknown = [name for name in options.only if name not in [case.file for case in CASES]]
    return f"--only={unknown[0]}: one of {', '.join(case.file for case in CASES)} is right" if unknown else None


def main():
    options, twofold = study.start(wrong)
    table = Table("fabric", "hybrid", "ranks", *STEP_COLUMNS, "exposed communication, predicted", "measured", "bubble, predicted", "measured")
    with tempfile.TemporaryDirectory() as folder:
        rows, pictures, problems = zip(*compare(twofold, options, table, pathlib.Path(folder)))
    problems = sum(problems, [])
    median, worst = error_summary(rows)
    text = [f"Errors of step times: median {percent(median, 2)} (at most {percent(MEDIAN, 0)}), worst {percent(worst, 2)} (at most {percent(WORST, 0)}), "
            f"on {os.cpu_count()} cores.",
            "In memory: threads, links of 2 Gb/s and 50 µs, nothing calibrated. Testbed: MPI processes on hosts of a star, calibrated by messages between pairs",
            f"of hosts alone, devices at {SLOWER['emulated.speed']:g} of the speed. "
            f"Memory was {'NOT equal: ' + '; '.join(problems) if problems else 'equal to the byte on every rank.'}",
            "Bubbles: the share of the step that stages idle for, waiting for messages included.", "",
            "Schedules, each prediction above its measurement, on one scale:", "", *sum(pictures, [])]
    study.publish("Hybrids: predicted against measured", [*table.lines, "", *text], rows)
    study.end(problems + ([f"median error {percent(median, 2)}, worst {percent(worst, 2)}"] if median > MEDIAN or worst > WORST else []))


if __name__ == "__main__":
    main()
