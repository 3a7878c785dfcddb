#!/usr/bin/env python3
"""At which link bandwidth does which kind of gradient compression make a step faster, and are such steps as fast as predicted?"""
import math
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, check_memory, error_summary, percent, predict_and_measure, row, signed, step_row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures. No GPU.", takes="about a minute.",
              writes="table.md, results.json and steps.svg")
RATES = [0.3, 1, 3, 10, 30, 100, 300]  # Gb/s
MOST = 0.05  # error of a measured step
LINK, LATENCY = 1, 50  # Gb/s and µs of the measured links
NONE = "none"
DILOCO = {"train.local_update.diloco.every_steps": 10, "train.steps": 80}
# name, settings, colour
METHODS = [
    (NONE, {}, "#888888"),
    ("BF16", {"train.precision.reduce": "BF16"}, "#222255"),
    ("quantize, 8 bits", {"parallel.compression.quantize.bits": 8}, "#4477aa"),
    ("quantize, 4 bits", {"parallel.compression.quantize.bits": 4}, "#66ccee"),
    ("one_bit", {"parallel.compression": "{ one_bit {} }"}, "#228833"),
    ("top_k, 1 %", {"parallel.compression.top_k.density": 0.01}, "#ccbb44"),
    ("random_k, 1 %", {"parallel.compression.random_k.density": 0.01}, "#999933"),
    ("power_sgd, rank 4", {"parallel.compression.power_sgd.rank": 4, "parallel.compression.power_sgd.start_step": 0}, "#ee6677"),
    ("one_bit_adam, frozen", {"train.optimizer.one_bit_adam.freeze_step": 1}, "#aa3377"),
    ("DiLoCo, H = 10", DILOCO, "#bb5500"),
]


def predicted(twofold, settings, gbps):
    """Seconds of a step of 16 GPUs."""
    with tempfile.NamedTemporaryFile("w+", suffix=".textproto") as file:
        file.write((study.folder / "gpus.textproto").read_text() + f"star {{ hosts: 16 link_gbytes_per_second: {gbps / 8} latency_us: 5 }}\n")
        file.flush()
        return twofold.report(study.folder / "gpu.textproto", {"fabric.simulated.cluster": file.name, **settings}, "--fabric=simulated")["median_step_seconds"]


def number(seconds):
    milliseconds = seconds * 1e3
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"


def svg(lines):
    """Step time over bandwidth, both logarithmic. `lines`: name, colour and seconds by rate."""
    left, top, width, height, right = 70, 20, 560, 380, 190
    low, high = (f(math.log10(s * 1e3)) for f, s in ((math.floor, min(min(s) for *_, s in lines)), (math.ceil, max(max(s) for *_, s in lines))))
    x = lambda gbps: left + width * math.log(gbps / RATES[0]) / math.log(RATES[-1] / RATES[0])  # noqa: E731
    y = lambda seconds: top + height * (high - math.log10(seconds * 1e3)) / (high - low)  # noqa: E731
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + right} {top + height + 50}" font-family="sans-serif" font-size="13">',
             '<style>text{fill:#222}.g{stroke:#ccc}@media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}}</style>']
    for gbps in RATES:
        parts.append(f'<line class="g" x1="{x(gbps):.1f}" y1="{top}" x2="{x(gbps):.1f}" y2="{top + height}"/>'
                     f'<text x="{x(gbps):.1f}" y="{top + height + 18}" text-anchor="middle">{gbps:g}</text>')
    for power in range(low, high + 1):
        parts.append(f'<line class="g" x1="{left}" y1="{y(10**power / 1e3):.1f}" x2="{left + width}" y2="{y(10**power / 1e3):.1f}"/>'
                     f'<text x="{left - 8}" y="{y(10**power / 1e3) + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">link, Gb/s</text><text x="8" y="14">step, ms</text>')
    for place, (name, colour, seconds) in enumerate(lines):
        points = " ".join(f"{x(gbps):.1f},{y(s):.1f}" for gbps, s in zip(RATES, seconds))
        at = top + 14 + 20 * place
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/><line x1="{left + width + 14}" y1="{at - 4}" '
                     f'x2="{left + width + 34}" y2="{at - 4}" stroke="{colour}" stroke-width="3"/><text x="{left + width + 40}" y="{at}">{name}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def predict(twofold):
    """Lines of the picture, of the table, and rows."""
    table, lines, rows = Table("16 GPUs", *(f"{gbps:g} Gb/s" for gbps in RATES)), [], []
    for name, settings, colour in METHODS:
        seconds = [predicted(twofold, settings, gbps) for gbps in RATES]
        lines.append((name, colour, seconds))
        rows += [row(f"16 GPUs, {name}, {gbps:g} Gb/s", s, None, "s", "none", method=name, gbps=gbps) for gbps, s in zip(RATES, seconds)]
    best = [min(s[place] for *_, s in lines) for place in range(len(RATES))]
    for name, _, seconds in lines:
        table.add(name, *(f"**{number(s)}**" if s <= 1.02 * least else number(s) for s, least in zip(seconds, best)))
    return lines, table, rows


def measure(twofold):
    table, rows = Table("four emulated GPUs", "predicted step", "measured step", "error", "faster than none, predicted", "measured"), []
    for name, settings, _ in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            p, m = predict_and_measure(twofold, study.folder / "emulated.textproto", settings, {"link_gbps": LINK, "latency_us": LATENCY}, folder)
        check_memory(name, p, m)
        rows.append(step_row(f"emulated, {name}", p, m, method=name))
        faster = [rows[0][key] / rows[-1][key] for key in ("predicted", "measured")]
        table.add(name, *(f"{number(rows[-1][key])} ms" for key in ("predicted", "measured")), signed(rows[-1]["error"]), *(f"{f:.2f}" for f in faster))
    return table, rows


def main():
    options, twofold = study.start()
    lines, steps, rows = predict(twofold)
    emulated, measured = measure(twofold)
    if options.write:
        (study.folder / "steps.svg").write_text(svg(lines))
    median, worst = error_summary(measured)
    text = [f"Milliseconds of a step of GPT-2 medium on 16 GPUs, predicted; bold: at most 2 % above the fastest. `DiLoCo` is the mean over H steps, "
            f"`one_bit_adam` a step after freezing.", "", "![step time over bandwidth](steps.svg)", "", *emulated.lines, "",
            f"GPT of 3 million parameters, links of {LINK} Gb/s and {LATENCY} µs. Median error {percent(median)}, worst {percent(worst)}; memory was equal to "
            f"the byte."]
    study.publish("When does compression pay?", [*steps.lines, "", *text], rows + measured)
    study.end([f"{r['name']}: the error is {signed(r['error'])}" for r in measured if abs(r["error"]) > MOST])


if __name__ == "__main__":
    main()
