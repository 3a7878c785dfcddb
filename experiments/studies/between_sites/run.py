#!/usr/bin/env python3
"""How fast must the link between two sites be, so that they compute for 50, 80, 90, 95 and 99 % of the time?"""
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, fail, percent, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates.", takes="about a minute.", writes="table.md, results.json and golden.json",
              golden="the rows of data parallelism")
STEP = 0.8  # seconds of a step's operations
BACKWARD = 2 / 3  # of a step's operations
GRID = [10 ** (-1 + 4 * k / 49) for k in range(50)]  # Gbit/s: the published values are of it
TARGETS = [0.5, 0.8, 0.9, 0.95, 0.99]
DILOCO = {"train.local_update.diloco.every_steps": 100, "train.steps": 300}
OVERLAP = {"train.local_update.streaming.fragments": 1, "train.local_update.streaming.overlap_steps": 1}
FOUR_BITS = {"train.local_update.quantize.bits": 4}
# name, settings, and Gbit/s of the table of simulated compute utilisation of Douillard et al. 2025 (Streaming DiLoCo), as quoted to us
METHODS = [
    ("data parallelism, BF16", {}, [104.8, 184.2, 222.3, 222.3, 390.7]),
    ("DiLoCo, H = 100, F32", DILOCO, [1.4, 6.2, 13.3, 23.3, 86.8]),
    ("DiLoCo, H = 100, F32, overlapping one step", {**DILOCO, **OVERLAP}, None),
    ("DiLoCo, H = 100, 4 bits", {**DILOCO, **FOUR_BITS}, None),
    ("DiLoCo, H = 100, 4 bits, overlapping one step", {**DILOCO, **OVERLAP, **FOUR_BITS}, None),
]
PERIODS = {"data parallelism, BF16": 1, "DiLoCo, H = 100, F32": 100}


def utilisation(twofold, settings):
    """The share of the time that a site computes, as a function of the link's Gbit/s."""
    @functools.cache
    def of(gbps):
        links = {"fabric.simulated.cluster": study.folder / "site.textproto", "fabric.simulated.sites.between_gbps": gbps}
        return STEP / twofold.report(study.folder / "gpt.textproto", {**links, **settings}, "--fabric=simulated")["median_step_seconds"]
    return of


def parameters(twofold):
    return twofold.report(study.folder / "gpt.textproto", {"fabric.simulated.cluster": study.folder / "site.textproto"}, "--fabric=simulated")["parameters"]


def least(of, target):
    """The least rate of the grid at which the target is met; more never computes less."""
    low, high = -1, len(GRID) - 1
    if of(GRID[high]) < target:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if of(GRID[middle]) >= target else (middle, high)
    return GRID[high]


def place(gbps):
    """The number on the grid of a published value, which is rounded."""
    return min(range(len(GRID)), key=lambda k: abs(GRID[k] / gbps - 1))


def implied(published, period):
    """Gbit per synchronisation (least, most) for which a link of each published rate, and of no lower rate of the grid, leaves sites idle for so short a
    time, if synchronising overlaps with the backward pass before it. The rate for 99 % also depends on the number of layers."""
    bounds = []
    for target, gbps in list(zip(TARGETS, published))[:4]:
        seconds = (1 / target - 1) * STEP * period + BACKWARD * STEP
        met_before = any(t < target and p == gbps for t, p in zip(TARGETS, published))  # then a lower rate may have missed the other target
        bounds.append((0 if met_before else seconds * GRID[place(gbps) - 1], seconds * GRID[place(gbps)]))
    return max(low for low, _ in bounds), min(high for _, high in bounds)


def predict(twofold, method):
    name, settings, published = method
    of = utilisation(twofold, settings)
    rows = []
    for target, paper in zip(TARGETS, published or [None] * len(TARGETS)):
        found = least(of, target)
        if found is None:
            fail(f"{name}: not even {GRID[-1]:g} Gbit/s suffice for {percent(target, 0)}")
        steps = None if paper is None else place(found) - place(paper)
        rows.append(row(f"{name}, {percent(target, 0)}", round(found, 4), paper, "Gbit/s", "validation" if paper else "none", method=name, utilisation=target,
                        grid_steps=steps))
    return rows


def cell(r):
    if r["measured"] is None:
        return f"{r['predicted']:.3g}"
    return f"{r['predicted']:.4g} / {r['measured']:g} ({r['grid_steps']:+d})" if r["grid_steps"] else f"{r['predicted']:.4g} / {r['measured']:g}"


def main():
    options, twofold = study.start()
    alone = STEP / utilisation(twofold, {})(1e9)
    if abs(alone / STEP - 1) > 0.002:
        fail(f"a step's operations take {alone:.4f} s instead of {STEP} s; change the rates of {study.folder / 'site.textproto'}")
    table = Table("method", *(percent(t, 0) for t in TARGETS))
    rows = []
    for method in METHODS[:1] if options.golden else METHODS:
        rows += predict(twofold, method)
        table.add(method[0], *map(cell, rows[-len(TARGETS):]))
    problems = study.hold([(r["name"], r["measured"], r["predicted"]) for r in rows])
    if options.golden:
        study.end(problems)
    billions = parameters(twofold) / 1e9
    text = ["", "Gbit/s of each site's link, in each direction, that each utilisation needs: predicted / published, and in brackets how many steps of the "
            "grid (of a factor of 1.207) the prediction is above the published value. Rows without published values are predictions only.", "",
            "Gbit that one synchronisation sends over a link, and the volumes for which all published rates would be right "
            f"(the model here has {billions:.2f} billion parameters):", "", "| method | here | in the paper |", "|---|---|---|"]
    for name, _, published in METHODS:
        if published:
            low, high = implied(published, PERIODS[name])
            text.append(f"| {name} | {billions * (16 if PERIODS[name] == 1 else 32):.0f} | {low:.0f} to {high:.0f} |")
    study.publish("What the link between two sites must carry", [*table.lines, *text], rows)
    study.end(problems)


if __name__ == "__main__":
    main()
