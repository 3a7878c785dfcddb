#!/usr/bin/env python3
"""How far predicted step times lie from measured ones on this machine, and how often the predicted interval holds the measurement.

    experiments/studies/accuracy/run.py [--write] [--pairs=5] [--quick] [--keep=FOLDER] [PATH_OF_TWOFOLD]

Each pair: `twofold calibrate`, then every spec predicted and at once measured, so that both see the same machine. A spec's
figures are medians over the pairs. Held against each other: predicted and measured step times of the same spec. What calibrated the predictions:
kernels and links alone and the jobs of experiments/program/calibrate/jobs.cc, which share no sizes with the specs here; of these, no
row calibrated anything. Fails when a bound is not met: quickstart within 10 % or inside the measured p10-p90; the others'
median error at most 8 %, the worst at most 20 %; 70 to 95 % of all pairs inside the predicted interval.
--write renews table.md beside this file; --keep leaves all reports in FOLDER; --quick calibrates with `--quick`.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
GPT = HERE / "gpt.textproto"
LLAMA, CNN = HERE / "llama.textproto", HERE / "cnn.textproto"
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


def quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stderr}")


def report_of(program, spec, ranks, settings, out, *more):
    command = ["run", spec, "--quiet", f"--out={out}", f"--set=parallel.dp={ranks}", *more]
    for path, value in settings.items():
        command.append(f"--set={path}={value}")
    run(program, *command)
    return json.loads((out / "report.json").read_text())


def median_row(name, ranks, pairs):
    """One row of the table: medians over the pairs."""
    predicted = statistics.median(p["median_step_seconds"] for p, _ in pairs)
    measured = statistics.median(m["median_step_seconds"] for _, m in pairs)
    low = statistics.median(m["low"] for _, m in pairs)
    high = statistics.median(m["high"] for _, m in pairs)
    inside = [p["low"] <= m["median_step_seconds"] <= p["high"] for p, m in pairs]
    width = statistics.median((p["high"] - p["low"]) / 2 / p["median_step_seconds"] for p, _ in pairs)
    # The error of a spec is the median of its pairs' errors: each pair saw one machine.
    error = statistics.median(p["median_step_seconds"] / m["median_step_seconds"] - 1 for p, m in pairs)
    return {"name": name, "ranks": ranks, "predicted": predicted, "measured": measured, "low": low, "high": high, "error": error,
            "inside": inside, "width": width, "within_percentiles": low <= predicted <= high}


def table(rows):
    lines = ["| spec | ranks | predicted | measured p50 | p10 | p90 | error | predicted interval | measured inside it |",
             "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        ms = [f"{r[key] * 1e3:.2f} ms" for key in ("predicted", "measured", "low", "high")]
        lines.append(f"| {r['name']} | {r['ranks']} | {' | '.join(ms)} | {r['error']:+.1%} | ± {r['width']:.1%} | "
                     f"{sum(r['inside'])} of {len(r['inside'])} |")
    return lines


def verdict(rows):
    """The bounds, as text and whether each is met."""
    first, others = rows[0], rows[1:]
    errors = [abs(r["error"]) for r in others]
    inside = [i for r in rows for i in r["inside"]]
    share = sum(inside) / len(inside)
    return [
        (f"{first['name']}: {first['error']:+.1%} (within {QUICKSTART_AT_MOST:.0%}, or inside the measured p10-p90: "
         f"{'yes' if first['within_percentiles'] else 'no'})", abs(first["error"]) <= QUICKSTART_AT_MOST or first["within_percentiles"]),
        (f"the {len(others)} others: median error {statistics.median(errors):.1%} (at most {MEDIAN_AT_MOST:.0%})",
         statistics.median(errors) <= MEDIAN_AT_MOST),
        (f"their worst: {max(errors):.1%} (at most {WORST_AT_MOST:.0%})", max(errors) <= WORST_AT_MOST),
        (f"measured median inside the predicted interval: {share:.0%} of {len(inside)} pairs ({INSIDE[0]:.0%} to {INSIDE[1]:.0%})",
         INSIDE[0] <= share <= INSIDE[1]),
    ]


def main():
    options = {a.split("=")[0]: a.split("=")[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = arguments[0] if arguments else str(ROOT / "build/release/experiments/program/twofold")
    pairs, started = int(options.get("--pairs", 5)), time.monotonic()
    found = {name: [] for name in SPECS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.get("--keep", scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for pair in range(pairs):
            here = folder / f"pair{pair + 1}"
            profile = here / "profile.textproto"
            begun = time.monotonic()
            run(program, "calibrate", f"--out={profile}", *(["--quick"] if "--quick" in options else []))
            print(f"pair {pair + 1} of {pairs}: calibrated in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            for number, (name, (spec, ranks, settings)) in enumerate(SPECS.items()):
                predicted = report_of(program, spec, ranks, settings, here / f"{number}-predicted", "--fabric=simulated",
                                      f"--set=fabric.simulated.profile={profile}")
                measured = report_of(program, spec, ranks, settings, here / f"{number}-measured", "--fabric=in_memory")
                found[name].append((predicted, measured))
                p, m = predicted["median_step_seconds"], measured["median_step_seconds"]
                inside = predicted["low"] <= m <= predicted["high"]
                print(f"pair {pair + 1} of {pairs}: {name}: predicted {p * 1e3:.2f} ms ({predicted['low'] * 1e3:.2f} to "
                      f"{predicted['high'] * 1e3:.2f}), measured {m * 1e3:.2f} ms, {p / m - 1:+.1%}, "
                      f"{'inside' if inside else 'outside'}", file=sys.stderr, flush=True)
            left = (time.monotonic() - started) / (pair + 1) * (pairs - pair - 1)
            print(f"pair {pair + 1} of {pairs} done, about {left:.0f} s left", file=sys.stderr, flush=True)
    rows = [median_row(name, SPECS[name][1], found[name]) for name in SPECS]
    bounds = verdict(rows)
    lines = table(rows) + [""] + [f"* {text}: {'met' if met else 'NOT MET'}" for text, met in bounds]
    lines += ["", f"{pairs} pairs of calibration and runs in {(time.monotonic() - started) / 60:.0f} minutes, {os.cpu_count()} cores, f32, one "
              "thread a rank, `in_memory`; medians over pairs (an error: of the pairs' errors). What calibrated the predictions: kernels",
              "and links alone, and the training jobs of `experiments/program/calibrate/jobs.cc`; no row of this table."]
    if "--write" in options:
        (HERE / "table.md").write_text("# Predicted against measured step times on this machine\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))
    sys.exit(0 if all(met for _, met in bounds) else "a bound is not met")


if __name__ == "__main__":
    main()
