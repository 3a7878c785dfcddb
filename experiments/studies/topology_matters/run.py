#!/usr/bin/env python3
"""One job on several networks: what the topology and its routing alone change.

    experiments/studies/topology_matters/run.py [--write | --golden] [PATH_OF_TWOFOLD]

256 H100, each with 50 GB/s into the network whatever it is: 32 NVSwitch nodes of 8 on a fat tree (d-mod-k and ECMP, without and with 4:1
oversubscription) and on a dragonfly (minimal and adaptive routing), or single devices on a 3-D torus and on a HammingMesh, whose
50 GB/s are spread over 6 and 4 links. The same spec everywhere, and two collectives. Nothing is calibrated and nothing measured:
networks are made up, costs are data sheets'. Each time stands beside the bound that explains it; fails when one is below its
bound, or is no longer what golden.json has. --write renews table.md, times.svg and golden.json beside this file; --golden holds the
collectives and GATE's steps against golden.json and does nothing else (experiments/studies/common/golden.py).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent / "common"))
import golden  # noqa: E402

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


def bench(program, operation, size, cluster, routing):
    """Milliseconds of one collective over all ranks."""
    text = (HERE / f"{cluster}.textproto").read_text() + f'routing: "{routing}"\n'
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
        file.write(text)
        file.flush()
        out = subprocess.run([program, "bench", operation, "-b", str(size), "-e", str(size), "--fabric=simulated", f"--cluster={file.name}",
                              f"--ranks={RANKS}", "--json"], check=True, capture_output=True, text=True).stdout
    row = json.loads(out)["results"][0]
    side = row["in_place"] if operation == "all_reduce" else row["out_of_place"]
    return side["time"] / 1e3


def step(program, cluster, routing, settings):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", str(HERE / "gpt.textproto"), "--quiet", "--fabric=simulated", f"--out={folder}/out"]
        for path, value in {"fabric.simulated.cluster": HERE / f"{cluster}.textproto", "fabric.simulated.routing": routing, **settings}.items():
            command += ["--set", f"{path}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((pathlib.Path(folder) / "out/report.json").read_text())["median_step_seconds"] * 1e3


def milliseconds(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


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
                         f'<text x="{x + length + 5:.1f}" y="{y + 15}" font-size="11">{milliseconds(values[column])}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    arguments, write, gate = [a for a in sys.argv[1:] if not a.startswith("--")], "--write" in sys.argv[1:], "--golden" in sys.argv[1:]
    program = str(pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve())
    lines = ["| network | " + " | ".join(COLUMNS[:1] + ["its bound"] + COLUMNS[1:2] + ["its bound"] + COLUMNS[2:]) + " | why |", "|---" * 9 + "|"]
    table, failures, figures = [], [], []
    for name, cluster, routing, unit, bisection, why in NETWORKS:
        units = RANKS * NIC / unit
        reduce_bound = 2 * (units - 1) / units * GIB / unit * 1e3
        exchange_bound = max((RANKS - 8) / RANKS * ALL_TO_ALL / NIC, RANKS / 4 * ALL_TO_ALL / bisection) * 1e3
        values = [bench(program, "all_reduce", GIB, cluster, routing), bench(program, "all_to_all", ALL_TO_ALL, cluster, routing)]
        for settings in STEPS if not gate else STEPS[:1] if name in GATE else []:
            values.append(step(program, cluster, routing, settings))
        figures += [(f"{name}, {column}", bound, value) for column, bound, value in zip(COLUMNS, [reduce_bound, exchange_bound, None, None, None], values)]
        for what, value, bound in (("all-reduce", values[0], reduce_bound), ("all-to-all", values[1], exchange_bound)):
            if value < bound * (1 - 1e-9):
                failures.append(f"{name}: {what} of {value:.3f} ms is below its bound of {bound:.3f} ms")
        if gate:
            continue
        table.append(values)
        lines.append(f"| {name} | {milliseconds(values[0])} | {milliseconds(reduce_bound)} | {milliseconds(values[1])} | "
                     f"{milliseconds(exchange_bound)} | " + " | ".join(milliseconds(v) for v in values[2:]) + f" | {why} |")
        print(lines[-1], flush=True)
    failures += golden.hold(HERE, figures, everything=not gate, write=write)
    if gate:
        sys.exit(1 if failures else 0)
    text = ("Milliseconds, library ideal. The bound of an all-reduce is what leaves a node (a device where it is alone) at the rate of all its NICs "
            "(links): 2 (u-1)/u n / rate for u of them. That of an all-to-all is the larger of a NIC's bytes and of half of all bytes "
            "through the bisection. "
            "Ranks at random change nothing on tori and HammingMeshes because the bucket algorithm follows the grid wherever ranks sit; "
            "a HYBRID_SHARD's groups do not fill the grid, so rings and doublings over it contend for narrow links.")
    if write:
        (HERE / "table.md").write_text("# One job on several networks\n\n" + "\n".join(lines) + "\n\n" + text + "\n")
        (HERE / "times.svg").write_text(svg([n[0] for n in NETWORKS], table))
    print(text)
    sys.exit("; ".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
