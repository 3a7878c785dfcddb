#!/usr/bin/env python3
"""What do the topology and its routing alone change, for one job and two collectives on 256 GPUs?"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates.", takes="about a minute.", writes="table.md, results.json, golden.json and times.svg",
              golden="the collectives, and GATE's steps")
RANKS, NIC, GIB = 256, 50e9, 2**30
ALL_TO_ALL = 2**26
NODE = 8 * NIC
# name, cluster, routing, all-reduce's bytes a second out of a unit (a node or a device), bisection in bytes a second, why
NETWORKS = [
    ("fat tree 1:1", "fat-tree-1-1", "deterministic", NODE, 128 * NIC, "NICs bind both; d-mod-k keeps a ring's flows apart"),
    ("fat tree 1:1, ECMP", "fat-tree-1-1", "ecmp", NODE, 128 * NIC,
     "hashes put up to four of a ring's flows on one uplink, and a ring waits for its slowest"),
    ("fat tree 4:1", "fat-tree-4-1", "deterministic", NODE, 128 * NIC / 4,
     "rings leave a leaf once, so they never meet the oversubscription; an all-to-all does"),
    ("dragonfly, minimal", "dragonfly", "deterministic", NODE, 64 * NIC,
     "one default cable between two groups carries what all their ranks send each other"),
    ("dragonfly, adaptive", "dragonfly", "adaptive", NODE, 64 * NIC, "the same cables, all of them used, and detours"),
    ("torus 8 x 8 x 4", "torus", "deterministic", NIC, 8 * 4 * 2 * NIC / 6,
     "the bucket algorithm fills all six links with an all-reduce; an all-to-all crosses 64 narrow cables"),
    ("HammingMesh 2 x 2, 8 x 8 boards", "hamming-mesh", "deterministic", NIC, 16 * 8 * NIC / 4,
     "a torus to an all-reduce, with twice its bisection"),
]
GATE = ["fat tree 1:1"]  # whose step the gate predicts
STEPS = [{}, {"parallel.sharding": "HYBRID_SHARD", "parallel.shard_group": 8}, {"fabric.simulated.placement.policy": "RANDOM"}]
COLUMNS = ["all-reduce 1 GiB", "all-to-all 64 MiB", "step, FULL_SHARD", "step, HYBRID_SHARD", "step, FULL_SHARD, ranks at random"]


def bench(twofold, operation, size, cluster, routing):
    """Milliseconds of one collective over all ranks."""
    with tempfile.NamedTemporaryFile("w+", suffix=".textproto") as file:
        file.write((study.folder / f"{cluster}.textproto").read_text() + f'routing: "{routing}"\n')
        file.flush()
        side = "in_place" if operation == "all_reduce" else "out_of_place"
        return twofold.bench(operation, size, size, f"--cluster={file.name}", f"--ranks={RANKS}", side=side)[size] / 1e3


def step(twofold, cluster, routing, settings):
    """Milliseconds of one step."""
    settings = {"fabric.simulated.cluster": study.folder / f"{cluster}.textproto", "fabric.simulated.routing": routing, **settings}
    return twofold.report(study.folder / "gpt.textproto", settings, "--fabric=simulated")["median_step_seconds"] * 1e3


def number(value):
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def svg(names, table):
    """Bars, a panel a column."""
    panel, bar, left, top = 230, 22, 280, 46
    width, height = left + panel * len(COLUMNS) + 40, top + bar * len(names) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             '<style>text{fill:#222}.b{fill:#4477aa}@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#77aadd}}</style>']
    for row, name in enumerate(names):
        parts.append(f'<text x="{left - 10}" y="{top + bar * row + 15}" text-anchor="end">{name}</text>')
    for column, title in enumerate(COLUMNS):
        x, most = left + panel * column, max(values[column] for values in table)
        parts.append(f'<text x="{x}" y="22" font-weight="bold">{title}</text><text x="{x}" y="38" font-size="11">ms</text>')
        for row, values in enumerate(table):
            length = (panel - 75) * values[column] / most
            y = top + bar * row
            parts.append(f'<rect class="b" x="{x}" y="{y + 3}" width="{length:.1f}" height="{bar - 6}"/>'
                         f'<text x="{x + length + 5:.1f}" y="{y + 15}" font-size="11">{number(values[column])}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def bounds(unit, bisection):
    """Least milliseconds of the two collectives."""
    units = RANKS * NIC / unit
    return [2 * (units - 1) / units * GIB / unit * 1e3, max((RANKS - 8) / RANKS * ALL_TO_ALL / NIC, RANKS / 4 * ALL_TO_ALL / bisection) * 1e3]


def predict(twofold, network, gate):
    """A network's rows of results.json, one a column."""
    name, cluster, routing, unit, bisection, why = network
    values = [bench(twofold, "all_reduce", GIB, cluster, routing), bench(twofold, "all_to_all", ALL_TO_ALL, cluster, routing)]
    values += [step(twofold, cluster, routing, settings) for settings in (STEPS if not gate else STEPS[:1] if name in GATE else [])]
    return [row(f"{name}, {column}", value, None, "ms", "none", network=name, quantity=column, bound=bound)
            for column, bound, value in zip(COLUMNS, [*bounds(unit, bisection), None, None, None], values)]


def main():
    options, twofold = study.start()
    table = Table("network", COLUMNS[0], "its bound", COLUMNS[1], "its bound", *COLUMNS[2:], "why")
    rows, times = [], []
    for network in NETWORKS:
        of_network = predict(twofold, network, options.golden)
        rows += of_network
        if not options.golden:
            values = [r["predicted"] for r in of_network]
            times.append(values)
            table.add(network[0], *(number(v) for r in of_network[:2] for v in (r["predicted"], r["bound"])), *map(number, values[2:]), network[-1])
    problems = [f"{r['name']}: {r['predicted']:.3f} ms is below its bound of {r['bound']:.3f} ms" for r in rows
                if r["bound"] and r["predicted"] < r["bound"] * (1 - 1e-9)]
    problems += study.hold([(r["name"], r["bound"], r["predicted"]) for r in rows])
    if options.golden:
        study.end(problems)
    if options.write:
        (study.folder / "times.svg").write_text(svg([n[0] for n in NETWORKS], times))
    text = ("Milliseconds, library ideal. The bound of an all-reduce is what leaves a node (a device where it is alone) at the rate of all its NICs "
            "(links): 2 (u-1)/u n / rate for u of them. That of an all-to-all is the larger of a NIC's bytes and of half of all bytes "
            "through the bisection. "
            "Ranks at random change nothing on tori and HammingMeshes because the bucket algorithm follows the grid wherever ranks sit; "
            "a HYBRID_SHARD's groups do not fill the grid, so rings and doublings over it contend for narrow links.")
    study.publish("One job on several networks", [*table.lines, "", text], rows)
    study.end(problems)


if __name__ == "__main__":
    main()
