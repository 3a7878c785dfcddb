"""The tables of the study, in Markdown."""
import statistics

from common import count, fail, markdown, percent
from jobs import CLUSTERS, MODELS

BEGIN, END = "<!-- tables: written by experiments/studies/which_strategy/run.py --write -->", "<!-- end of the tables -->"
GIB = 2**30
SMALL = 0.1  # what is left open below it is no more than an interval
NAMES = {"SHARD_OPTIMIZER": "ZeRO-1", "SHARD_GRAD_OP": "ZeRO-2", "FULL_SHARD": "ZeRO-3", "HYBRID_SHARD": "HSDP"}


AXES = ("tp", "pp", "cp", "ep", "dp", "v")
PLAIN = {"recompute 1": "recomputation", "OFFLOAD_OPTIMIZER": "optimizer offloaded", "OFFLOAD_ALL": "all offloaded"}


def items(text):
    """The parts of a layout's text: a word, with the number behind it if there is one (`tp 8`, `recompute 1`, `HYBRID_SHARD of 32`)."""
    out = []
    for word in text.split():
        if word.isdigit() or word == "of":
            out[-1] += f" {word}"
        else:
            out.append(word)
    return out


def short(text):
    """A layout as people say it, without axes of one and micro-batches; DDP is what has neither shards nor one rank."""
    found = items(text)
    out = [PLAIN.get(item) or " ".join(NAMES.get(word, word) for word in item.split()) for item in found
           if not (item.split()[0] in AXES and item.endswith(" 1")) and not item.startswith("mb ")]
    replicas = any(item.startswith("dp ") and item != "dp 1" for item in found)
    if replicas and not any(item.split()[0] in NAMES.values() for item in out):
        out.insert(0, "DDP")
    return ", ".join(out) or "one process"


def missing(closest):
    return (closest["least_bytes"] - closest["device_bytes"]) / GIB


def cell(row):
    if row["predicted"] is None:
        return f"not within {row['least_seconds']:.3g} s" if row["open"] else f"nothing fits ({missing(row['closest']):.1f} GiB too many)"
    return short(row["layout_text"])


def state(row):
    if row["predicted"] is None:
        return "open" if row["open"] else "proven"
    return "proven" if row["proven"] else f"{percent(1 - row['least_seconds'] / row['predicted'])} open"


def told_apart(theirs, row):
    """Whether intervals say that the documents' layout is slower."""
    return theirs["seconds"] > row["high"]


def of_one(theirs, row):
    if not theirs["fits"]:
        if theirs["open"]:
            return f"{theirs['words']}: budget ended"
        return f"{theirs['words']}: does not fit" + (f", {missing(theirs['closest']):.1f} GiB too many" if theirs["closest"] else "")
    if row["predicted"] is None:
        return f"{theirs['words']}: {theirs['seconds']:.3g} s"
    if theirs["text"] == row["layout_text"]:
        return f"{theirs['words']}: the same"
    slower = theirs["seconds"] / row["predicted"] - 1
    return f"{theirs['words']}: {100 * slower:+.0f} %" + ("" if told_apart(theirs, row) else ", not told apart")


def against(row):
    if not row["documents"]:
        return f"none ({row['documents_row']} from {row['documents_gpus']} GPUs)"
    beyond = "" if row["documents_covers"] else f" (they say {row['documents_gpus']} GPUs)"
    return "; ".join(of_one(theirs, row) for theirs in row["documents"]) + beyond


def details(rows):
    """One line a job."""
    out = []
    for row in rows:
        fits = row["predicted"] is not None
        out.append((row["model"], count(row["gpus"]), cell(row), f"{row['predicted']:.3g} s" if fits else "", percent(row["mfu"]) if fits else "",
                    f"{row['layout_bytes'] / GIB:.1f} GiB" if fits else "", f"{row['exposed']:.2g} s" if fits else "",
                    percent(row["bubble"]) if fits else "", state(row), count(row["simulated"]), count(row["legal"]), against(row)))
    return markdown(("model", "GPUs", "fastest that fits", "step", "MFU", "memory", "exposed comm.", "bubble", "proof", "simulated", "legal layouts",
                     "the documents' layout, compared with it"), out)


def grid(rows, cluster):
    """Models by numbers of GPUs."""
    by_job = {(row["model"], row["gpus"]): row for row in rows if row["cluster"] == cluster.name}

    def text(model, gpus):
        row = by_job[model.name, gpus]
        if row["predicted"] is None:
            return "-" if not row["open"] else "?"
        left = 1 - row["least_seconds"] / row["predicted"]
        return short(row["layout_text"]) + f": {percent(row['mfu'], 0)}" + (f" (open: {percent(left, 0)})" if left > SMALL else "")
    return markdown(("model", *(f"{count(gpus)} GPU{'s' * (gpus > 1)}" for gpus in cluster.gpus)),
                    [(model.name, *(text(model, gpus) for gpus in cluster.gpus)) for model in MODELS if (model.name, cluster.gpus[0]) in by_job])


def tally(rows):
    """How often the documents' layouts fit, and how far they are behind."""
    cases = [(theirs, row) for row in rows for theirs in row["documents"] if row["documents_covers"] and row["predicted"] is not None]
    fit = [(theirs, row) for theirs, row in cases if theirs["fits"]]
    behind = [theirs["seconds"] / row["predicted"] - 1 for theirs, row in fit]
    apart = sum(told_apart(theirs, row) for theirs, row in fit)
    return (f"Where the documents' table names a layout and something fits ({count(len(cases))} cases), theirs does not fit in {count(len(cases) - len(fit))}; "
            f"in {count(apart)} of the other {count(len(fit))} it is slower by more than the interval of ours"
            + (f", at most by {percent(max(behind), 0)}." if behind else "."))


def unproven(rows):
    left = [row for row in rows if not row["proven"]]
    if not left:
        return "All plans were proven."
    out = f"{count(len(rows) - len(left))} of {count(len(rows))} plans were proven."
    if gaps := [1 - row["least_seconds"] / row["predicted"] for row in left if row["predicted"] is not None]:
        out += f" In {count(len(gaps))}, time ended when a layout was known, and none can be faster by more than {percent(max(gaps), 0)} ({percent(statistics.median(gaps), 0)} in the median)."
    if without := len(left) - len(gaps):
        out += f" In {count(without)}, it ended before one was (\"not within\": no layout takes less)."
    return out


def clusters(rows):
    return [cluster for cluster in CLUSTERS if any(row["cluster"] == cluster.name for row in rows)]


def page(rows, gap, budget):
    out = [f"Plans end at a gap of {gap}, or after {budget:g} s. A layout is the fastest that fits among all that `cp: 1`, buckets of 25 MiB and the usual order "
           "of axes allow; it offloads only where nothing else fits.", "", unproven(rows) + " " + tally(rows), "", "![grid of layouts](grid.svg)"]
    for cluster in clusters(rows):
        out += ["", f"## {cluster.title} (`{cluster.name}`)", "", *details([row for row in rows if row["cluster"] == cluster.name])]
    return out


def into_guide(path, rows):
    """Replaces what stands between the markers."""
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        fail(f"{path}: needs one line {BEGIN} and one line {END} below it")
    tables = [line for cluster in clusters(rows) for line in ("", f"### {cluster.title} (`{cluster.name}`)", "", *grid(rows, cluster))]
    before, rest = text.split(BEGIN)
    path.write_text("\n".join([before + BEGIN, *tables[1:], "", tally(rows), END]) + rest.split(END)[1])
