#!/usr/bin/env python3
"""Fits a generation's constants of NCCL within a node to one_node.csv, with `twofold bench` as the model.

For every GPU it prints the constants fitted to all versions of NCCL (those of sim/collectives/nccl_costs.cc), and for every version of a GPU
that has several it writes a cluster whose constants have not seen that version: h100_sxm-without-2.23.textproto. Gauss and Newton on
logarithms of times, weights of soft L1 (scale 5 %), a fixed number of rounds. It takes some minutes and needs nothing but `twofold`.
"""
import collections
import math
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, read_csv  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone.", takes="some minutes.", writes="the *-without-*.textproto files and constants", golden="nothing")
GPUS = {"a100_sxm": ("dgx-a100", "ampere"), "h100_sxm": ("dgx-h100", "hopper"), "b200_sxm": ("dgx-b200", "blackwell")}
# Where each constant stands in the cluster file, and where the search begins.
LATENCY = (("ring", "LL", "base_us", 7), ("ring", "LL", "node_us", 0.9), ("ring", "LL", "channel_gbytes_per_second", 9),
           ("ring", "LL128", "base_us", 15), ("ring", "LL128", "node_us", 1), ("ring", "Simple", "base_us", 18), ("ring", "Simple", "node_us", 5),
           ("direct", "LL", "base_us", 9), ("direct", "LL", "channel_gbytes_per_second", 7), ("direct", "Simple", "base_us", 11))
NVLS = (("nvls", "Simple", "base_us", 20),)
SHARES = (("nvlink_efficiency", 0.82), ("local_gbytes_per_second", 700))
NVLS_SHARES = (("nvls_efficiency", 0.7),)
ROUNDS, STEP, SCALE, DAMPING = 3, 0.03, 0.05, 0.05


def names_of(generation):
    switched = generation != "ampere"
    return LATENCY + (NVLS if switched else ()), SHARES + (NVLS_SHARES if switched else ())


def library_text(generation, values):
    latencies, shares = names_of(generation)
    by_way = collections.defaultdict(list)
    for (algorithm, protocol, field, _), value in zip(latencies, values):
        by_way[algorithm, protocol].append(f"{field}: {value:.4g}")
    lines = [f'    latency {{ algorithm: "{a}" protocol: "{p}" {" ".join(fields)} }}' for (a, p), fields in by_way.items()]
    scalars = " ".join(f"{field}: {value:.4g}" for (field, _), value in zip(shares, values[len(latencies):]))
    return "\n".join(['library {', '  name: "nccl"', '  nccl {', f'    generation: "{generation}" {scalars}', *lines, "  }", "}", ""])


def cluster_text(gpu, left_out, values):
    cluster, generation = GPUS[gpu]
    text = (study.folder.parents[2] / "topologies/catalogue" / f"{cluster}.textproto").read_text()
    text = text[:text.index("\nlibrary")].rsplit("\n", 1)[0] if text[:text.index("\nlibrary")].rsplit("\n", 1)[1].startswith("#") else text[:text.index("\nlibrary")]
    return f"{text}\n# fit.py: constants that have not seen NCCL {left_out}\n{library_text(generation, values)}"


def solve(matrix, right):
    """Gauss with pivots; `matrix` is symmetric and damped, so not singular."""
    n = len(right)
    rows = [list(row) + [r] for row, r in zip(matrix, right)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k])]
    found = [0.0] * n
    for k in reversed(range(n)):
        found[k] = (rows[k][n] - sum(rows[k][j] * found[j] for j in range(k + 1, n))) / rows[k][k]
    return found


def residuals(twofold, gpu, values, points):
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "fit.textproto"
        path.write_text(cluster_text(gpu, "", values))
        for collective, ranks in sorted({(c, n) for c, n, _ in points}):
            sizes = [b for c, n, b in points if (c, n) == (collective, ranks)]
            for size, us in twofold.bench(collective, min(sizes), max(sizes), f"--cluster={path}", f"--ranks={ranks}", "--nodes=1").items():
                times[collective, ranks, size] = us
    return [math.log(times[key] / us) for key, us in points.items()]


def fit(twofold, gpu, points):
    latencies, shares = names_of(GPUS[gpu][1])
    logs = [math.log(row[-1]) for row in latencies + shares]
    for _ in range(ROUNDS):
        at = residuals(twofold, gpu, [math.exp(v) for v in logs], points)
        columns = []
        for k in range(len(logs)):
            moved = [v + (STEP if i == k else 0) for i, v in enumerate(logs)]
            columns.append([(m - a) / STEP for m, a in zip(residuals(twofold, gpu, [math.exp(v) for v in moved], points), at)])
        weights = [1 / math.sqrt(1 + (r / SCALE) ** 2) for r in at]
        normal = [[sum(w * a * b for w, a, b in zip(weights, columns[i], columns[j])) + (DAMPING if i == j else 0) for j in range(len(logs))]
                  for i in range(len(logs))]
        step = solve(normal, [-sum(w * c * r for w, c, r in zip(weights, columns[i], at)) for i in range(len(logs))])
        logs = [v + max(-0.5, min(0.5, s)) for v, s in zip(logs, step)]
        # Shares stay shares.
        for k in range(len(latencies), len(logs)):
            if (latencies + shares)[k][-1] <= 1:
                logs[k] = min(logs[k], math.log(0.95))
    return [math.exp(v) for v in logs]


def main():
    _, twofold = study.start()
    rows = read_csv(study.folder / "one_node.csv")
    versions = {gpu: sorted({r["version"] for r in rows if r["gpu"] == gpu}) for gpu in GPUS}
    jobs = [(gpu, version) for gpu in GPUS for version in versions[gpu] if len(versions[gpu]) > 1]
    for gpu, left_out in [*jobs, *((gpu, None) for gpu in GPUS)]:
        logs = collections.defaultdict(list)
        for r in rows:
            if r["gpu"] == gpu and r["version"] != left_out:
                logs[r["collective"], int(r["ranks"]), int(r["bytes"])].append(math.log(float(r["microseconds"])))
        values = fit(twofold, gpu, {key: math.exp(sum(v) / len(v)) for key, v in logs.items()})
        print(f"{gpu} without {left_out}:\n{library_text(GPUS[gpu][1], values)}", flush=True)
        if left_out is not None:
            (study.folder / f"{gpu}-without-{left_out}.textproto").write_text(cluster_text(gpu, left_out, values))


if __name__ == "__main__":
    main()
