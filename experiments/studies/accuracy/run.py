#!/usr/bin/env python3
"""How far are predicted step times from measured ones on this machine, and how often does the predicted interval hold the measurement?"""
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Study, Table, milliseconds, percent, progress, row, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it calibrates and measures. No GPU.", takes="about a minute per pair on 2 cores.",
              quick="calibrate with `--quick`")
study.option("--pairs", type=int, default=5, metavar="N", help="calibrations, each followed by all runs (default: 5)")
study.option("--keep", type=pathlib.Path, metavar="FOLDER", help="leave all profiles and reports there")
GPT, LLAMA, CNN = (study.folder / f"{name}.textproto" for name in ("gpt", "llama", "cnn"))
QUICKSTART = ROOT / "experiments/quickstart/gpt.textproto"
# name: (spec, ranks, settings). The first is what README shows, the others vary one thing each.
SPECS = {
    "quickstart": (QUICKSTART, 2, {"train.steps": 40}),
    "width: 2 layers of 384": (GPT, 2, {"model.gpt.layers": 2, "model.gpt.hidden": 384, "model.gpt.heads": 6}),
    "depth: 8 layers of 128": (GPT, 2, {"model.gpt.layers": 8, "model.gpt.hidden": 128}),
    "sequence: 256 tokens": (GPT, 1, {"model.gpt.sequence": 256, "train.micro_batch": 2}),
    "batch: 2 x 8 samples": (GPT, 1, {"train.micro_batch": 8, "train.global_batch": 16, "train.steps": 20}),
    "Llama: 3 layers of 256": (LLAMA, 2, {}),
    "CNN: 3 stages, 32 x 32": (CNN, 1, {}),
}
QUICKSTART_AT_MOST, MEDIAN_AT_MOST, WORST_AT_MOST, INSIDE = 0.10, 0.08, 0.20, (0.70, 0.95)


def compare(twofold, name, profile, folder):
    """Reports of one spec: predicted and, right after, measured."""
    spec, ranks, settings = SPECS[name]
    settings = {"parallel.dp": ranks, **settings}
    predicted = twofold.report(spec, {**settings, "fabric.simulated.profile": profile}, "--fabric=simulated", out=f"{folder}-predicted")
    measured = twofold.report(spec, settings, "--fabric=in_memory", out=f"{folder}-measured")
    p, m = predicted["median_step_seconds"], measured["median_step_seconds"]
    progress(f"{name}: predicted {milliseconds(p)} ({milliseconds(predicted['low'])} to {milliseconds(predicted['high'])}), "
             f"measured {milliseconds(m)}, {signed(p / m - 1)}, {'inside' if predicted['low'] <= m <= predicted['high'] else 'outside'}")
    return predicted, measured


def measure(twofold, options, folder):
    """Of every spec, what each pair of calibration and runs found."""
    found, started = {name: [] for name in SPECS}, time.monotonic()
    for pair in range(options.pairs):
        profile = folder / f"pair{pair + 1}/profile.textproto"
        twofold("calibrate", f"--out={profile}", *(["--quick"] if options.quick else []))
        for number, (name, results) in enumerate(found.items()):
            results.append(compare(twofold, name, profile, profile.parent / str(number)))
        left = (time.monotonic() - started) / (pair + 1) * (options.pairs - pair - 1)
        progress(f"pair {pair + 1} of {options.pairs} done, about {left:.0f} s left")
    return found


def row_of(name, pairs):
    """Medians over the pairs. The error of pairs is the median of their errors: each pair saw one machine."""
    p, m = ({key: statistics.median(pair[side][key] for pair in pairs) for key in ("median_step_seconds", "low", "high")} for side in (0, 1))
    width = statistics.median((p["high"] - p["low"]) / 2 / p["median_step_seconds"] for p, _ in pairs)
    error = statistics.median(p["median_step_seconds"] / m["median_step_seconds"] - 1 for p, m in pairs)
    return row(name, p["median_step_seconds"], m["median_step_seconds"], "s", ranks=SPECS[name][1], measured_p10=m["low"], measured_p90=m["high"],
               error_of_pairs=error, interval=width, inside=sum(p["low"] <= m["median_step_seconds"] <= p["high"] for p, m in pairs), pairs=len(pairs))


def bounds(rows):
    """The bounds, as text and whether each is met."""
    first, others = rows[0], rows[1:]
    errors = [abs(r["error_of_pairs"]) for r in others]
    median, pairs = statistics.median(errors), sum(r["pairs"] for r in rows)
    share = sum(r["inside"] for r in rows) / pairs
    within = first["measured_p10"] <= first["predicted"] <= first["measured_p90"]
    return [
        (f"{first['name']}: {signed(first['error_of_pairs'])} (within {percent(QUICKSTART_AT_MOST, 0)}, or inside the measured p10-p90: "
         f"{'yes' if within else 'no'})", abs(first["error_of_pairs"]) <= QUICKSTART_AT_MOST or within),
        (f"the {len(others)} others: median error {percent(median)} (at most {percent(MEDIAN_AT_MOST, 0)})", median <= MEDIAN_AT_MOST),
        (f"their worst: {percent(max(errors))} (at most {percent(WORST_AT_MOST, 0)})", max(errors) <= WORST_AT_MOST),
        (f"measured median inside the predicted interval: {percent(share, 0)} of {pairs} pairs ({percent(INSIDE[0], 0)} to {percent(INSIDE[1], 0)})",
         INSIDE[0] <= share <= INSIDE[1]),
    ]


def main():
    options, twofold = study.start()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(twofold, options, (options.keep or pathlib.Path(scratch)).resolve())
    rows = [row_of(name, pairs) for name, pairs in found.items()]
    table = Table("spec", "ranks", "predicted", "measured p50", "p10", "p90", "error", "predicted interval", "measured inside it")
    for r in rows:
        times = (milliseconds(r[key]) for key in ("predicted", "measured", "measured_p10", "measured_p90"))
        table.add(r["name"], r["ranks"], *times, signed(r["error_of_pairs"]), f"± {percent(r['interval'])}", f"{r['inside']} of {r['pairs']}")
    lines = [*table.lines, "", *(f"* {text}: {'met' if met else 'NOT MET'}" for text, met in bounds(rows)), "",
             f"{options.pairs} pairs of calibration and runs in {(time.monotonic() - started) / 60:.0f} minutes, {os.cpu_count()} cores, f32, one "
             "thread a rank, `in_memory`; medians over pairs (an error: of the pairs' errors). What calibrated the predictions: kernels",
             "and links alone, and the training jobs of `experiments/program/calibrate/jobs.cc`; no row of this table."]
    study.publish("Predicted against measured step times on this machine", lines, rows)
    study.end([f"not met: {text}" for text, met in bounds(rows) if not met])


if __name__ == "__main__":
    main()
