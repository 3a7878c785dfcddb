#!/usr/bin/env python3
"""What do published jobs of Megatron-LM, Megatron-DeepSpeed and PyTorch FSDP take, in time and memory, by the profiles of their frameworks?"""
import concurrent.futures
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Failed, Study, figures, markdown, percent, progress, row, signed  # noqa: E402
from tables import GB_OF_SMI, job, rows_of, seconds_of  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates, on all cores.", takes="about 6 minutes on 2 cores; with --times hours.",
              writes="table.md, results.json and golden.json", golden="GATE's rows")
study.option("--times", action="store_true", help="predict times, too, and print all; golden.json has only memory, and is not checked")
study.option("--only", default="", metavar="TEXT", help="run the rows with TEXT in their names, and check nothing")
# table: (what it is, has times, has memory)
TABLES = {"mosaic_h100": ("Mosaic, FSDP on H100", True, False), "mosaic_a100": ("Mosaic, FSDP on A100", True, False), "llmc": ("llm.c", True, False),
          "fms": ("fms-fsdp, compiled FSDP", True, False), "torchtitan": ("torchtitan, FSDP2 on A100", True, False),
          "nemo": ("NeMo, FP8 on H100", True, False), "megatron_bridge": ("Megatron-Bridge, FP8", True, False),
          "llama3": ("Llama 3 405B, Meta", True, False), "vldb23": ("PyTorch FSDP's paper", True, False), "bigscience_prequel": ("BigScience, before BLOOM", True, True),
          "lumi_time": ("LUMI, 175B", True, False), "bigscience_1b3": ("BigScience, 1.3B on V100", False, True), "lumi_memory": ("LUMI, 175B", False, True)}
GATE = ["1b3_00", "1b3_10", "lumi_08", "prequel_18"]
MIB, GIB = 2**20, 2**30


def predicted_memory(twofold, case, known):
    """memory.json of a row's spec. Rows of lumi_memory are stages of one job, which is predicted once."""
    spec, settings = job(case)
    if case["table"] == "bigscience_prequel":  # as much is held with twice as many micro-batches as stages
        settings = {**settings, "train.global_batch": 2 * case["pp"] * case["dp"] * case["micro_batch"]}
    key = str((spec, settings))
    if key not in known:
        known[key] = twofold.report(spec, settings, command=("memory",), file="memory.json", statuses=(0, 3))
    return known[key]


def stage_of(memory, case):
    """What the first rank of a stage of LUMI's job takes."""
    return next(rank for rank in memory["ranks"] if rank["ranks"][0] // (8 * case["dp"]) == case["stage"])["framework"]


def memory_rows(memory, case):
    """Rows of results.json. `least`: GiB of the fullest rank on a full device, against which the verdict is made."""
    ranks = [rank["framework"] for rank in memory["ranks"]]
    if case["table"] == "lumi_memory":
        stage = stage_of(memory, case)
        return [row(f"{case['row_id']}, {what}", stage[f"{key}_bytes"] / MIB, float(case[f"{field}_MiB"]), "MiB", case["role"], table=case["table"])
                for what, key, field in (("allocated", "allocated", "peak"), ("reserved", "reserved", "reserved"))]
    device = ranks[0]["device_bytes"]  # on the first node; the sources' figures are from there
    limit = case.get("device_GB", 80)
    # The verdict is that of the fullest rank: the last stage with its logits, in the 1.3B rows that ran out.
    usable = {80: 79.15, 32: 31.75, 16: 15.78}[limit] * GIB  # what PyTorch reports as the capacity
    least = max(rank["least_device_bytes"] for rank in ranks)
    return [row(f"{case['row_id']}, on the device", device / GIB, float(case["gpu_GB"]) * GB_OF_SMI / GIB if case["gpu_GB"] else None, "GiB", case["role"],
                table=case["table"], least=least / GIB, predicted_fits=least <= usable, measured_fits=case["oom"] == 0)]


def time_rows(twofold, case):
    measured = seconds_of(case)
    if measured is None:
        return []
    spec, settings = job(case)
    report = twofold.report(spec, settings)
    if report["outcome"] != "OK":
        raise Failed(f"{case['row_id']}: {report['outcome']}: {report['message']}")
    return [row(f"{case['row_id']}, step", report["median_step_seconds"], measured, "s", case["role"], table=case["table"],
                missing_GiB=report.get("missing_memory_bytes", 0) / GIB)]


def rows_of_case(twofold, case, known):
    _, times, memory = TABLES[case["table"]]
    try:
        rows = time_rows(twofold, case) if times and study.options.times else []
        if memory and (case.get("gpu_GB", "-") or case["oom"]):
            rows += memory_rows(predicted_memory(twofold, case, known), case)
    except Failed as error:
        raise Failed(f"{case['row_id']}: {error}") from None
    progress("; ".join(f"{r['name']}: {signed(r['error']) if r['error'] is not None else '-'}" for r in rows))
    return rows


def predict(twofold, cases):
    known = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [r for rows in pool.map(lambda case: rows_of_case(twofold, case, known), cases) for r in rows]


def summary(rows):
    lines = []
    for table, (name, *_) in TABLES.items():
        for unit, what in (("s", "time"), ("MiB", "memory by PyTorch"), ("GiB", "memory by nvidia-smi")):
            for role in ("calibration", "development", "validation"):
                members = [r for r in rows if r["table"] == table and r["unit"] == unit and r["role"] == role and r["error"] is not None]
                if not members:
                    continue
                errors = [abs(r["error"]) for r in members]
                lines.append([name, what, role, len(members), percent(statistics.median(errors)), percent(statistics.mean(errors)),
                              signed(statistics.mean(r["error"] for r in members)), percent(max(errors))])
    return markdown(["table", "what", "role", "rows", "median", "mean", "mean, signed", "worst"], lines)


def verdicts(rows):
    lines = []
    for table, (name, _, memory) in TABLES.items():
        judged = [r for r in rows if r["table"] == table and "measured_fits" in r]
        if not judged:
            continue
        missed = [r for r in judged if r["predicted_fits"] and not r["measured_fits"]]
        false = [r for r in judged if r["measured_fits"] and not r["predicted_fits"]]
        lines.append([name, len(judged), sum(not r["measured_fits"] for r in judged), len(missed), len(false),
                      ", ".join(r["name"].partition(",")[0] for r in missed + false) or "-"])
    return markdown(["table", "rows", "ran out of memory", "of these called fitting", "called too large though they fitted", "which"], lines)


def each(rows):
    def text(value, unit):
        return "-" if value is None else f"{value:,.2f}" if unit == "GiB" else f"{value:,.3f}" if unit == "s" else f"{value:,.0f}"
    return markdown(["row", "role", "unit", "measured", "predicted", "error"],
                    [[r["name"], r["role"], r["unit"], text(r["measured"], r["unit"]), text(r["predicted"], r["unit"]),
                      signed(r["error"]) if r["error"] is not None else "-"] for r in rows])


def main():
    options, twofold = study.start()
    cases = [case for table in TABLES for case in rows_of(table)]
    if options.golden:
        cases = [case for case in cases if case["row_id"] in GATE]
    cases = [case for case in cases if options.only in case["row_id"]]
    rows = predict(twofold, cases)
    if options.only or options.times:
        print("\n".join([*summary(rows), "", *verdicts(rows), "", *each(rows)]))
        return
    problems = study.hold(figures(rows))
    if options.golden:
        study.end(problems)
    study.publish("Jobs of other frameworks, predicted and published", ["## By table", "", *summary(rows), "", "## Does it fit?", "", *verdicts(rows), "",
                                                                        "## Every row", "", *each(rows)], rows)
    study.end(problems)


if __name__ == "__main__":
    main()
