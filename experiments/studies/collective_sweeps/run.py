#!/usr/bin/env python3
"""How far is `twofold bench` on simulated clusters from published sweeps of NCCL, within one node and between nodes?"""
import collections
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, fail, figures, markdown, percent, read_csv, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates.", takes="a few seconds.",
              writes="table.md, results.json, predicted.csv, sweeps.svg and golden.json", golden="a few sizes of a series of every kind")
LARGE = 1 << 20
MOST_LARGE, MOST_SMALL = 0.10, 0.25
GATE_SIZES = 3  # of each series of the gate: the least, the middle and the largest


SERIES = ("system", "ranks", "nodes", "collective", "algorithm")


def role_of(row, split):
    for line in split:
        if all(line[key] in ("*", row[key]) for key in ("system", "ranks", "nodes", "collective")):
            return line["role"]
    fail(f"split.csv has no line for {row}")


def read_series():
    """Rows of measured.csv with their roles, by series."""
    split, series = read_csv(study.folder / "split.csv"), collections.defaultdict(list)
    for line in read_csv(study.folder / "measured.csv"):
        entry = {**line, "role": role_of(line, split), "measured": float(line["microseconds"]), **{key: int(line[key]) for key in ("ranks", "nodes", "bytes")}}
        series[tuple(entry[key] for key in SERIES)].append(entry)
    return series


def predict(twofold, cluster, series, sizes):
    """Microseconds by size, of one series."""
    _, ranks, nodes, collective, algorithm = series
    words = [f"--cluster={study.folder / cluster if cluster.endswith('.textproto') else cluster}", f"--ranks={ranks}", f"--nodes={nodes}"]
    return twofold.bench(collective, min(sizes), max(sizes), *words, *([] if algorithm == "auto" else [f"--algorithm={algorithm}"]))


def rows_of(twofold, series):
    """Rows of results.json, by series."""
    clusters = {line["system"]: line["cluster"] for line in read_csv(study.folder / "clusters.csv")}
    found = {}
    for key, members in series.items():
        times, (system, ranks, nodes, collective, algorithm) = predict(twofold, clusters[key[0]], key, [m["bytes"] for m in members]), key
        found[key] = [row(f"{system}, {ranks} GPUs, {nodes} nodes, {collective}, {algorithm}, {m['bytes']} B", times[m["bytes"]], m["measured"], "µs", m["role"],
                          **dict(zip(SERIES, key)), bytes=m["bytes"]) for m in members]
    return found


def bus_bandwidth(collective, ranks, size, microseconds):
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "send_recv": 1}.get(collective, (ranks - 1) / ranks)
    return size / microseconds / 1e3 * factor  # GB/s


def error(row):
    """Of bus bandwidth for large sizes, of time for small ones."""
    measured, predicted = row["measured"], row["predicted"]
    return abs(measured / predicted - 1) if row["bytes"] >= LARGE else abs(predicted / measured - 1)


def median(rows):
    return percent(statistics.median(map(error, rows))) if rows else ""


HEAD = ["role", "system", "GPUs", "nodes", "collective", "rows ≥ 1 MiB", "error of bus bandwidth", "rows < 1 MiB", "error of time"]


def line_of(key, members):
    large, small = [r for r in members if r["bytes"] >= LARGE], [r for r in members if r["bytes"] < LARGE]
    return [*key, len(large), median(large), len(small), median(small)]


def grouped(all_rows, key_of):
    groups = collections.defaultdict(list)
    for r in all_rows:
        groups[key_of(r)].append(r)
    return markdown(HEAD, [line_of(*group) for group in sorted(groups.items(), key=lambda group: tuple(map(str, group[0])))])


def page(all_rows):
    validation = [r for r in all_rows if r["role"] == "validation"]
    # What validates by another number of GPUs alone; a node of p6_b200 is such as b200's.
    fewer = {("h100_cluster", 4), ("h100_cluster", 8), *(("vtrain_a100", n) for n in range(2, 8)), *(("b200", n) for n in range(4, 8))}
    overall = (("**calibration**", [r for r in all_rows if r["role"] == "calibration"]), ("**validation**", validation),
               ("of that: one node", [r for r in validation if r["nodes"] == 1]), ("several nodes", [r for r in validation if r["nodes"] > 1]),
               ("other systems or other numbers of nodes alone", [r for r in validation if (r["system"], r["ranks"]) not in fewer]))
    return ["[README.md](README.md) says what is compared. Medians of absolute errors.", "",
            *grouped(all_rows, lambda r: (r["role"], r["system"], r["ranks"], r["nodes"], r["collective"])), "", "By system:", "",
            *grouped(all_rows, lambda r: (r["role"], r["system"], r["ranks"] if r["nodes"] > 1 else "", r["nodes"], "all")), "", "Over all rows:", "",
            *markdown(HEAD, [line_of((name, "all", "", "", "all"), members) for name, members in overall])]


# ---- The picture: a panel a series, measured points and the predicted line, bus bandwidth over size ----
WIDE, HIGH, COLUMNS = 230, 150, 6


def panel(series, members, x0, y0):
    system, ranks, nodes, collective, algorithm = series
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
    parts.append(f'<text x="{x0 + 40}" y="{y0 + 24}">{name}, {role}</text>')
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
    shown = {s: m for s, m in all_series.items() if len(m) > 4}
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
    """Of every system and collective, within a node and between nodes, the series of the fewest ranks, a few sizes of it."""
    chosen = {}
    for key in sorted(all_series, key=lambda key: key[1]):
        system, _, nodes, collective, algorithm = key
        chosen.setdefault((system, nodes > 1, collective, algorithm), key)
    for key in chosen.values():
        members = sorted(all_series[key], key=lambda m: m["bytes"])
        yield key, [members[round(i * (len(members) - 1) / (GATE_SIZES - 1))] for i in range(GATE_SIZES)] if len(members) > GATE_SIZES else members


def write_files(series):
    (study.folder / "sweeps.svg").write_text(picture(series))
    keys = (*SERIES, "role", "bytes", "measured")
    lines = [",".join(str(r[key]) for key in keys) + f",{r['predicted']:.6g}\n" for members in series.values() for r in members]
    (study.folder / "predicted.csv").write_text("".join(["system,ranks,nodes,collective,algorithm,role,bytes,measured_us,predicted_us\n", *lines]))


def main():
    options, twofold = study.start()
    series = read_series()
    series = rows_of(twofold, dict(of_gate(series)) if options.golden else series)
    all_rows = [r for members in series.values() for r in members]
    problems = study.hold(figures(all_rows))
    if options.golden:
        study.end(problems)
    if options.write:
        write_files(series)
    study.publish("Published sweeps", page(all_rows), all_rows)
    for text, most, large in (("of 1 MiB and more", MOST_LARGE, True), ("smaller", MOST_SMALL, False)):
        seen = statistics.median(error(r) for r in all_rows if r["role"] == "validation" and (r["bytes"] >= LARGE) == large)
        problems += [f"validation, sizes {text}: {percent(seen)}, at most {percent(most, 0)}"] if seen > most else []
    study.end(problems)


if __name__ == "__main__":
    main()
