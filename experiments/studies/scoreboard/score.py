"""What predictions are worth: errors, coverage of intervals, order of layouts, verdicts of memory. An entry is (Row, Prediction)."""
import collections
import math
import statistics

from common.published import LARGE, STEP, UNSEEN

ROLES = ("calibration", "development", "validation", "none")
GPUS = {8: "1 to 8", 64: "9 to 64", 512: "65 to 512", math.inf: "more than 512"}  # classes, by the most
SMALLEST_FAMILY = 3  # rows: of two, a rank correlation is a coin


def error(entry):
    """predicted / measured - 1; None unless both are there."""
    row, prediction = entry
    return prediction.value / row.measured - 1 if row.measured and prediction.value is not None else None


def with_errors(entries):
    return [entry for entry in entries if error(entry) is not None]


def quantile(values, share):
    """By linear interpolation between the sorted values."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    return ordered[below] + (at - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])


def errors(entries):
    """{"rows", "median", "p90", "bias", "worst"} of those that have errors; None: there are none. `bias` is the median of signed errors."""
    found = [error(entry) for entry in with_errors(entries)]
    if not found:
        return None
    sizes = [abs(e) for e in found]
    return {"rows": len(found), "median": statistics.median(sizes), "p90": quantile(sizes, 0.9), "bias": statistics.median(found), "worst": max(found, key=abs)}


# ---- Intervals ----
def is_inside(entry):
    row, prediction = entry
    return prediction.low <= row.measured <= prediction.high


def coverage(entries):
    """{"rows", "inside", "below", "above", "width", "needed"}: shares of rows inside the stated interval, of measurements below and above it, the
    median half width, and the half width that would have held nine tenths, as shares of the prediction. None: no interval is stated."""
    stated = [(row, p) for row, p in with_errors(entries) if p.low is not None and p.high is not None]
    if not stated:
        return None
    share = lambda of: sum(map(of, stated)) / len(stated)
    return {"rows": len(stated), "inside": share(is_inside), "below": share(lambda e: e[0].measured < e[1].low), "above": share(lambda e: e[0].measured > e[1].high),
            "width": statistics.median((p.high - p.low) / 2 / p.value for _, p in stated),
            "needed": quantile([abs(row.measured / p.value - 1) for row, p in stated], 0.9)}


# ---- Rows that constants have not seen ----
def pairs(entries):
    """[(entry, the same row predicted by constants that have not seen it)]"""
    seen = {row.id: (row, p) for row, p in entries}
    return [(seen[row.id.replace(UNSEEN, "", 1)], (row, p)) for row, p in entries if UNSEEN in row.id and row.id.replace(UNSEEN, "", 1) in seen]


def ratio(found):
    """Of medians of errors, of rows that constants have not seen over the same rows by constants that may have; None: the latter is zero."""
    with_it, without = (errors(side) for side in zip(*found))
    return without["median"] / with_it["median"] if with_it["median"] else None


# ---- Layouts of one job ----
def ranks(values):
    """From 1; equal values share the mean of their ranks."""
    places = collections.defaultdict(list)
    for place, value in enumerate(sorted(values), 1):
        places[value].append(place)
    return [statistics.mean(places[value]) for value in values]


def spearman(one, other):
    """None if all values of one side are equal."""
    a, b = ranks(one), ranks(other)
    mean = (len(a) + 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    size = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return product / size if size else None


def families(entries):
    """[(family, table, rows, Spearman's correlation, regret, chosen row, best row)]; regret: measured time of the layout that is predicted to be
    the best, over the best that was measured, - 1."""
    grouped = collections.defaultdict(list)
    for row, prediction in with_errors(entries):
        if row.family:
            grouped[row.family].append((row, prediction))
    found = []
    for family, members in grouped.items():
        if len(members) < SMALLEST_FAMILY:
            continue
        chosen, best = min(members, key=lambda e: e[1].value)[0], min(members, key=lambda e: e[0].measured)[0]
        correlation = spearman([p.value for _, p in members], [row.measured for row, _ in members])
        found.append((family, chosen.table, len(members), correlation, chosen.measured / best.measured - 1, chosen.id, best.id))
    return found


def repeats(entries):
    """[(rows, largest measured time / smallest - 1)] of training steps that a table has more than once: equal specs are predicted to the same bits."""
    alike = collections.defaultdict(list)
    for row, prediction in with_errors(entries):
        if row.kind == STEP:
            alike[row.table, prediction.value].append(row)
    return [(rows, max(r.measured for r in rows) / min(r.measured for r in rows) - 1) for rows in alike.values() if len(rows) > 1]


# ---- Memory ----
def verdicts(entries):
    """{"rows", "out", "found", "missed", "false"}, of which the last two are lists of ids; None: nothing was judged."""
    judged = [(row, p) for row, p in entries if row.fitted is not None]
    if not judged:
        return None
    out = [(row, p) for row, p in judged if not row.fitted]
    return {"rows": len(judged), "out": len(out), "found": sum(not p.fits for _, p in out), "missed": [row.id for row, p in out if p.fits],
            "false": [row.id for row, p in judged if row.fitted and not p.fits]}


# ---- Groups ----
def grouped(entries, key):
    """In the order of their first entries."""
    found = collections.defaultdict(list)
    for entry in entries:
        found[key(entry[0])].append(entry)
    return found


def size_of(row):
    """A class of sizes: of GPUs, and of a message."""
    gpus = next(text for most, text in GPUS.items() if row.gpus <= most)
    return gpus, ("" if not row.bytes else "1 MiB and more" if row.bytes >= LARGE else "less than 1 MiB")
