"""The rows of this study as the scoreboard takes them."""
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run  # noqa: E402
from common import read_csv  # noqa: E402
from common.published import COLLECTIVE, Job, Prediction, Row, word  # noqa: E402

TABLES = {"one node": "NCCL in a node, by version", "several": "NCCL and RCCL sweeps", "left out": "NCCL in a node, version left out"}


def id_of(series, size, left_out):
    system, ranks, nodes, collective, algorithm, setting = series
    version = setting.removeprefix("NCCL ")
    name = system + (f"-{version}" if version else "") + ("-unseen" if left_out else "")
    return word(name, f"{ranks // nodes}x{nodes}", collective + ("" if algorithm == "auto" else f".{algorithm}"), size)


def row_of(series, member, left_out):
    table = "left out" if left_out else "one node" if series[-1].startswith("NCCL") else "several"
    return Row(id_of(series, member["bytes"], left_out), TABLES[table], "validation" if left_out else member["role"], COLLECTIVE, series[0],
               series[1], member["measured"], "µs", bytes=member["bytes"])


def clusters_of(series):
    """(cluster, whether its constants have not seen this version of NCCL)."""
    clusters = {line["system"]: line["cluster"] for line in read_csv(run.study.folder / "clusters.csv")}
    yield clusters[series[0]], False
    without = f"{series[0]}-without-{series[-1].removeprefix('NCCL ')}.textproto"
    if (run.study.folder / without).exists():
        yield without, True


def words_of(cluster, series, least, most):
    return ["bench", series[3], "--fabric=simulated", "-b", least, "-e", most, "-f", 2, *run.shape(cluster, series)]


def job(cluster, series, rows):
    """All sizes, of one cluster and shape: versions that it predicts alike are predicted once."""
    def predict(twofold):
        found = run.predict(twofold, cluster, series, [row.bytes for row in rows])
        return {row.id: Prediction(found[row.bytes]) for row in rows}

    return Job(tuple(rows), predict, lambda row: words_of(cluster, series, row.bytes, row.bytes), 0.3 + series[1] ** 2 / 3e4)


def jobs():
    alike = collections.defaultdict(list)
    for series, members in run.read_series().items():
        for cluster, left_out in clusters_of(series):
            alike[cluster, series[1:-1]] += [(series, member, left_out) for member in members]
    for (cluster, _), found in alike.items():
        yield job(cluster, found[0][0], [row_of(*one) for one in found])
