#!/usr/bin/env python3
"""How far is `twofold bench` on simulated clusters from published sweeps of NCCL, within one node and between nodes?"""
import collections
import math
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, fail, figures, markdown, percent, read_csv, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates.", takes="a minute or two, most of it for 1,024 ranks.",
              writes="table.md, results.json, predicted.csv, sweeps.svg and golden.json", golden="a few sizes of a series of every kind")
LARGE = 1 << 20
# By part of the table: medians of at least 1 MiB, of less. Above them the study fails, or says so.
BOUNDS = {"validation": (0.10, 0.25), "one node, version left out": (0.06, 0.15)}
AIMS = {"development": (0.12, 0.25)}
MOST_OF_A_SYSTEM = 0.20  # likewise of development, both classes of sizes
# Calls of a size in a source's runs (nccl-tests' -n), where they are not 20: successive broadcasts share the delay of the first.
CALLS = {"abci": 100}
SPREAD_MAY_DIFFER = 0.02  # of the percentiles from those that the simulator's intervals have
GATE_SIZES = 3  # of each series of the gate: the least, the middle and the largest


SERIES = ("system", "ranks", "nodes", "collective", "algorithm", "setting")


def role_of(row, split):
    for line in split:
        if all(line[key] in ("*", row[key]) for key in ("system", "ranks", "nodes", "collective")):
            return line["role"]
    fail(f"split.csv has no line for {row}")


def entry_of(line, role, **more):
    whole = {key: int(line.get(key, more.get(key))) for key in ("ranks", "nodes", "bytes")}
    return {"algorithm": "auto", "setting": "", **line, **more, **whole, "role": role, "measured": float(line["microseconds"])}


def read_series():
    """Rows with their roles, by series: measured.csv by split.csv, one_node.csv, development.csv."""
    split = read_csv(study.folder / "split.csv")
    entries = [entry_of(line, role_of(line, split)) for line in read_csv(study.folder / "measured.csv")]
    for line in read_csv(study.folder / "one_node.csv"):
        role = "calibration" if line["gpu"] in ("a100_sxm", "h100_sxm", "b200_sxm", "l40s") else "none"
        entries.append(entry_of(line, role, system=line["gpu"], nodes=1, setting=f"NCCL {line['version']}"))
    entries += [entry_of(line, "development") for line in read_csv(study.folder / "development.csv")]
    series = collections.defaultdict(list)
    for entry in entries:
        series[tuple(entry[key] for key in SERIES)].append(entry)
    return series


def shape(cluster, series):
    """The words of `twofold bench` for a series on a cluster."""
    system, ranks, nodes, collective, algorithm, _ = series
    words = [f"--cluster={study.folder / cluster if cluster.endswith('.textproto') else cluster}", f"--ranks={ranks}", f"--nodes={nodes}"]
    words += [f"--ranks-per-node={ranks // nodes}"] if nodes > 1 else []
    words += [f"--iters={CALLS[system]}"] if system in CALLS and collective in ("broadcast", "reduce") else []
    return words + ([] if algorithm == "auto" else [f"--algorithm={algorithm}"])


def predict(twofold, cluster, series, sizes, known={}):
    """Microseconds by size, of one series; `known` keeps those of other settings."""
    key = (series[3], min(sizes), max(sizes), *shape(cluster, series))
    if key not in known:
        known[key] = twofold.bench(*key)
    # nccl-tests rounds sizes to 16 bytes a rank, twofold to an element.
    return {size: known[key][min(known[key], key=lambda other: abs(other - size))] for size in sizes}


def rows_of(twofold, series):
    """Rows of results.json, by series; a version of a GPU that has several is also predicted by constants that have not seen it."""
    clusters = {line["system"]: line["cluster"] for line in read_csv(study.folder / "clusters.csv")}
    found = {}
    for key, members in series.items():
        system, version = key[0], key[-1].removeprefix("NCCL ")
        without = f"{system}-without-{version}.textproto"
        for cluster, left_out in ((clusters[system], ""), *([(without, ", left out")] if (study.folder / without).exists() else [])):
            times = predict(twofold, cluster, key, [m["bytes"] for m in members])
            named = (*key[:-1], key[-1] + left_out)
            words = ", ".join([f"{system}, {key[1]} GPUs, {key[2]} nodes, {key[3]}, {key[4]}", *([named[-1]] if named[-1] else [])])
            found[named] = [row(f"{words}, {m['bytes']} B", times[m["bytes"]], m["measured"], "µs", "validation" if left_out else m["role"],
                                **dict(zip(SERIES, named)), bytes=m["bytes"]) for m in members]
    return found


def part_of(row):
    """Of the table and of BOUNDS."""
    if row["setting"].endswith("left out"):
        return "one node, version left out"
    if row["setting"].startswith("NCCL"):
        return "one node, fitted" if row["role"] == "calibration" else "one node, other GPUs"
    return row["role"]


def bus_bandwidth(collective, ranks, size, microseconds):
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "send_recv": 1}.get(collective, (ranks - 1) / ranks)
    return size / microseconds / 1e3 * factor  # GB/s


def error(row):
    """Of bus bandwidth for large sizes, of time for small ones."""
    measured, predicted = row["measured"], row["predicted"]
    return abs(measured / predicted - 1) if row["bytes"] >= LARGE else abs(predicted / measured - 1)


def median(rows):
    return percent(statistics.median(map(error, rows))) if rows else ""


HEAD = ["part", "system", "GPUs", "nodes", "collective", "rows ≥ 1 MiB", "error of bus bandwidth", "rows < 1 MiB", "error of time"]


def classes(rows):
    return [r for r in rows if r["bytes"] >= LARGE], [r for r in rows if r["bytes"] < LARGE]


def line_of(key, members):
    large, small = classes(members)
    return [*key, len(large), median(large), len(small), median(small)]


def grouped(all_rows, key_of):
    groups = collections.defaultdict(list)
    for r in all_rows:
        groups[key_of(r)].append(r)
    return markdown(HEAD, [line_of(*group) for group in sorted(groups.items(), key=lambda group: tuple(map(str, group[0])))])


def page(all_rows, spread):
    validation = [r for r in all_rows if part_of(r) == "validation"]
    # What validates by another number of GPUs alone; a node of p6_b200 is such as b200's.
    fewer = {("h100_cluster", 4), ("h100_cluster", 8), *(("vtrain_a100", n) for n in range(2, 8)), *(("b200", n) for n in range(4, 8))}
    parts = sorted({part_of(r) for r in all_rows})
    overall = (*((f"**{part}**", [r for r in all_rows if part_of(r) == part]) for part in parts),
               ("validation: one node", [r for r in validation if r["nodes"] == 1]), ("several nodes", [r for r in validation if r["nodes"] > 1]),
               ("other systems or other numbers of nodes alone", [r for r in validation if (r["system"], r["ranks"]) not in fewer]))
    return ["[README.md](README.md) says what is compared. Medians of absolute errors.", "", "Over all rows:", "",
            *markdown(HEAD, [line_of((name, "all", "", "", "all"), members) for name, members in overall]), "", *spread, "By system:", "",
            *grouped(all_rows, lambda r: (part_of(r), r["system"], r["ranks"] if r["nodes"] > 1 else "", r["nodes"], "all")), "",
            *grouped(all_rows, lambda r: (part_of(r), r["system"], r["ranks"], r["nodes"], r["collective"]))]


def beyond(all_rows, bounds_of):
    """Messages of medians above their bounds."""
    found = []
    for part, bounds in bounds_of.items():
        for name, rows, most in zip(("1 MiB and more", "less than 1 MiB"), classes([r for r in all_rows if part_of(r) == part]), bounds):
            seen = statistics.median(map(error, rows))
            found += [f"{part}, {name}: {percent(seen)}, at most {percent(most, 0)}"] if seen > most else []
    return found


def systems_beyond(all_rows):
    found = []
    for system in sorted({r["system"] for r in all_rows if r["role"] == "development"}):
        for name, rows in zip(("1 MiB and more", "less than 1 MiB"), classes([r for r in all_rows if r["role"] == "development" and r["system"] == system])):
            seen = statistics.median(map(error, rows)) if rows else 0
            found += [f"development, {system}, {name}: {percent(seen)}, at most {percent(MOST_OF_A_SYSTEM, 0)}"] if seen > MOST_OF_A_SYSTEM else []
    return found


def spread_lines(all_rows):
    """(Lines, problems): how far measured times of large messages are from predicted ones, and whether the simulator's intervals say so."""
    text = (study.folder.parents[2] / "sim/collectives/nccl_costs.h").read_text()
    lines, problems = [], []
    for name, where, between in (("kSpreadWithinNode", "within a node", False), ("kSpreadBetweenNodes", "between nodes", True)):
        of = [r["measured"] / r["predicted"] for r in all_rows if r["role"] == "validation" and r["bytes"] >= LARGE and (r["nodes"] > 1) == between]
        tenths = statistics.quantiles(of, n=10)
        stated = [float(v) for v in re.search(name + r"\{([\d.]+), ([\d.]+)\}", text).groups()]
        lines.append(f"* {where}: {tenths[0]:.2f} to {tenths[-1]:.2f} ({len(of)} rows); intervals of steps have {stated[0]} to {stated[1]}")
        if any(abs(seen - said) > SPREAD_MAY_DIFFER for seen, said in zip((tenths[0], tenths[-1]), stated)):
            problems.append(f"{name} in sim/collectives/nccl_costs.h is {stated[0]} to {stated[1]}, but the rows tell {tenths[0]:.2f} to {tenths[-1]:.2f}")
    return ["Measured over predicted time of what validates, 1 MiB and more, 10th to 90th percentile:", "", *lines, ""], problems


def predicted_before():
    """What spread_lines needs of the rows that the last --write predicted."""
    rows = read_csv(study.folder / "predicted.csv")
    return [{"role": r["role"], "bytes": int(r["bytes"]), "nodes": int(r["nodes"]), "measured": float(r["measured_us"]), "predicted": float(r["predicted_us"])} for r in rows]


# ---- The picture: a panel a series, measured points and the predicted line, bus bandwidth over size ----
WIDE, HIGH, COLUMNS = 230, 150, 6


def panel(series, members, x0, y0):
    system, ranks, nodes, collective, algorithm, setting = series
    points = [(math.log2(r["bytes"]), *(math.log10(max(1e-4, bus_bandwidth(collective, ranks, r["bytes"], r[side])))
                                       for side in ("measured", "predicted"))) for r in members]
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    low, high = math.floor(min(min(p[1:]) for p in points)), math.ceil(max(max(p[1:]) for p in points))
    x = lambda v: x0 + 40 + (WIDE - 54) * (v - left) / max(1, right - left)
    y = lambda v: y0 + HIGH - 24 - (HIGH - 52) * (v - low) / max(1, high - low)
    parts = [f'<rect x="{x0 + 40}" y="{y0 + 28}" width="{WIDE - 54}" height="{HIGH - 52}" class="frame"/>']
    role = members[0]["role"]
    name = f"{collective}{'' if algorithm == 'auto' else ', ' + algorithm}"
    parts.append(f'<text x="{x0 + 40}" y="{y0 + 12}" class="title {role}">{system}: {ranks} GPUs, {nodes} node{"" if nodes == 1 else "s"}</text>')
    parts.append(f'<text x="{x0 + 40}" y="{y0 + 24}">{name}, {setting or role}</text>')
    for decade in range(low, high + 1):
        parts.append(f'<text x="{x0 + 37}" y="{y(decade) + 3:.1f}" text-anchor="end">{10.0 ** decade:g}</text>')
    for bits in (left, right):
        size = 2 ** bits
        unit, text = next((u, t) for u, t in ((2**30, "G"), (2**20, "M"), (2**10, "K"), (1, "")) if size >= u)
        anchor = "start" if bits == left else "end"
        parts.append(f'<text x="{x(bits):.1f}" y="{y0 + HIGH - 12}" text-anchor="{anchor}">{size / unit:.0f}{text}B</text>')
    parts.append('<polyline class="predicted" points="' + " ".join(f"{x(p[0]):.1f},{y(p[2]):.1f}" for p in points) + '"/>')
    parts += [f'<circle class="measured" cx="{x(p[0]):.1f}" cy="{y(p[1]):.1f}" r="1.8"/>' for p in points]
    return "\n".join(parts)


def picture(all_series):
    # Of the many within one node, only what has not been fitted.
    shown = {s: m for s, m in all_series.items() if len(m) > 4 and part_of(m[0]) not in ("one node, fitted", "one node, other GPUs")}
    height = HIGH * math.ceil(len(shown) / COLUMNS) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE * COLUMNS} {height}" font-family="sans-serif" font-size="9">',
           "<style>.frame{fill:none;stroke:#bbb}.title{font-weight:bold}.validation{fill:#075}.calibration{fill:#555}"
           ".predicted{fill:none;stroke:#c40;stroke-width:1.4}.measured{fill:#036}</style>",
           f'<rect width="{WIDE * COLUMNS}" height="{height}" fill="white"/>',
           '<text x="40" y="15" font-size="11">Bus bandwidth in GB/s over size: measured (points) and predicted by twofold bench (line)</text>']
    for i, (series, members) in enumerate(sorted(shown.items(), key=lambda item: (item[1][0]["role"], item[0]))):
        out.append(panel(series, members, WIDE * (i % COLUMNS), 24 + HIGH * (i // COLUMNS)))
    return "\n".join([*out, "</svg>", ""])


def of_gate(all_series):
    """Of every system and collective, within a node and between nodes, the series of the fewest ranks up to 128, a few sizes of it."""
    chosen = {}
    for key in sorted(all_series, key=lambda key: (key[1], key[-1])):
        system, ranks, nodes, collective, algorithm, _ = key
        if ranks > 128:
            continue
        chosen.setdefault((system, nodes > 1, collective, algorithm), key)
    for key in chosen.values():
        members = sorted(all_series[key], key=lambda m: m["bytes"])
        yield key, [members[round(i * (len(members) - 1) / (GATE_SIZES - 1))] for i in range(GATE_SIZES)] if len(members) > GATE_SIZES else members


def write_files(series):
    (study.folder / "sweeps.svg").write_text(picture(series))
    keys = (*SERIES, "role", "bytes", "measured")
    lines = [",".join(str(r[key]).replace(",", ";") for key in keys) + f",{r['predicted']:.6g}\n" for members in series.values() for r in members]
    (study.folder / "predicted.csv").write_text("".join(["system,ranks,nodes,collective,algorithm,setting,role,bytes,measured_us,predicted_us\n", *lines]))


def main():
    options, twofold = study.start()
    series = read_series()
    series = rows_of(twofold, dict(of_gate(series)) if options.golden else series)
    all_rows = [r for members in series.values() for r in members]
    problems = study.hold(figures(all_rows))
    if options.golden:
        study.end(problems + spread_lines(predicted_before())[1])
    if options.write:
        write_files(series)
    spread, wrong = spread_lines(all_rows)
    problems += wrong
    study.publish("Published sweeps", page(all_rows, spread), all_rows)
    for text in beyond(all_rows, AIMS) + systems_beyond(all_rows):
        print(f"aim missed: {text}")
    problems += beyond(all_rows, BOUNDS)
    study.end(problems)


if __name__ == "__main__":
    main()
