#!/usr/bin/env python3
"""How far are predicted step times of sharded layouts from measured ones on this machine, with threads and with MPI processes?"""
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, check_memory, milliseconds, percent, progress, row, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` with MPI, 2 cores, and this machine to itself: it calibrates and measures. No GPU.",
              takes="about 3 minutes per pair on 2 cores.")
study.option("--pairs", type=int, default=3, metavar="N", help="calibrations, each followed by all runs (default: 3)")
LAYOUTS = ["NO_SHARD", "SHARD_OPTIMIZER", "SHARD_GRAD_OP", "FULL_SHARD"]
FABRICS = ["in_memory", "mpi"]
MOST = 0.10


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


def compare(twofold, fabric, layout, profiles):
    """Step times of one layout: predicted from each profile, and measured."""
    settings = {"parallel.sharding": layout, **({"parallel.bucket_mib": 2} if layout == "NO_SHARD" else {})}
    spec, launch = study.folder / "gpt.textproto", ["launch", "--ranks=2", "--fabric=mpi", "--"] if fabric == "mpi" else []
    reports = [twofold.report(spec, {**settings, "fabric.simulated.profile": profile, "fabric.simulated.links": fabric}, "--fabric=simulated") for profile in profiles]
    measured = twofold.report(spec, settings, f"--fabric={fabric}", launch=launch)
    check_memory(layout, reports[0], measured)
    alone, full = (r["median_step_seconds"] for r in reports)
    return {"alone": alone, "full": full, "measured": measured["median_step_seconds"], "low": measured["low"], "high": measured["high"]}


def measure(twofold, pairs, folder):
    """Of every fabric and layout, what each pair found."""
    found = {(fabric, layout): [] for fabric in FABRICS for layout in LAYOUTS}
    full, alone = folder / "profile.textproto", folder / "alone.textproto"
    for pair in range(pairs):
        full.unlink(missing_ok=True)
        twofold("calibrate", f"--out={full}")
        twofold("launch", "--ranks=2", "--", "calibrate", f"--out={full}")
        alone.write_text(without_jobs(full))
        for (fabric, layout), results in found.items():
            results.append(compare(twofold, fabric, layout, (alone, full)))
            errors = [signed(results[-1][of] / results[-1]["measured"] - 1) for of in ("alone", "full")]
            progress(f"pair {pair + 1} of {pairs}: {layout} on {fabric}: measured {milliseconds(results[-1]['measured'], 1)}, {errors[0]}, with jobs {errors[1]}")
    return found


def row_of(fabric, layout, results):
    """Medians over the pairs; an error of pairs is the median of their errors."""
    middle = {key: statistics.median(r[key] for r in results) for key in results[0]}
    errors = {of: statistics.median(r[of] / r["measured"] - 1 for r in results) for of in ("alone", "full")}
    return row(f"{layout}, {fabric}", middle["alone"], middle["measured"], "s", layout=layout, fabric=fabric, measured_p10=middle["low"],
               measured_p90=middle["high"], error_of_pairs=errors["alone"], error_of_pairs_with_jobs=errors["full"])


def main():
    options, twofold = study.start()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row_of(*case, results) for case, results in measure(twofold, options.pairs, pathlib.Path(folder)).items()]
    table = Table("layout", "fabric", "predicted, kernels and links alone", "measured p50", "p10", "p90", "error", "error, training jobs known")
    for r in rows:
        times = (milliseconds(r[key], 1) for key in ("predicted", "measured", "measured_p10", "measured_p90"))
        table.add(r["layout"], r["fabric"], *times, signed(r["error_of_pairs"]), signed(r["error_of_pairs_with_jobs"]))
    sharded = [r for r in rows if r["layout"] != "NO_SHARD"]
    errors = [abs(r["error_of_pairs"]) for r in sharded]
    inside = [r["measured_p10"] <= r["predicted"] <= r["measured_p90"] for r in sharded]
    median = statistics.median(errors)
    met = median <= MOST or all(inside)
    text = [f"Sharded layouts, kernels and links alone: median error {percent(median)} (at most {percent(MOST, 0)}), worst {percent(max(errors))}; "
            f"{sum(inside)} of {len(inside)} inside the measured p10 to p90: {'met' if met else 'NOT MET'}.",
            f"{options.pairs} pairs in {(time.monotonic() - started) / 60:.0f} minutes, 2 ranks, {os.cpu_count()} cores; memory was equal to the byte."]
    study.publish("Step times of sharded layouts: predicted against measured", [*table.lines, "", *text], rows)
    study.end([] if met else [f"the median error is {percent(median)}"])


if __name__ == "__main__":
    main()
