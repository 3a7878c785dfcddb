"""The tables of the scoreboard, in Markdown."""
import statistics

import score
from common import count, fail, markdown, percent, read_json, signed
from common.published import COLLECTIVE, LARGE, LEFT_OUT, MEMORY, STEP, STUDIES, UNSEEN

WHAT = {STEP: "step time", COLLECTIVE: "time of a collective", MEMORY: "memory"}
MOST_RATIO = 1.5  # of the errors of training steps whose system was left out of the fit, over those with it
BEGIN, END = "<!-- scoreboard: written by experiments/studies/scoreboard/run.py --write -->", "<!-- end of the scoreboard -->"


def is_computed(row):
    return row.table.endswith("(computed)")


def published(entries):
    """Without rows that are predicted once more by constants that have not seen them."""
    return [e for e in entries if not e[0].table.endswith(LEFT_OUT)]


def cells(entries):
    found, inside = score.errors(entries), score.coverage(entries)
    if found is None:
        return ["0", "-", "-", "-", "-", "-"]
    return [count(found["rows"]), percent(found["median"]), percent(found["p90"]), signed(found["bias"]), signed(found["worst"]),
            percent(inside["inside"], 0) if inside else "none stated"]


HEAD = ["rows", "median error", "p90", "median, signed", "worst", "inside the interval"]


def by_table(entries):
    groups = score.grouped(score.with_errors(entries), lambda row: (row.kind, row.table, row.role))
    return markdown(["table", "what", "role", *HEAD], [[table, WHAT[kind], role, *cells(members)] for (kind, table, role), members in groups.items()])


def by_system(entries):
    groups = score.grouped(score.with_errors(entries), lambda row: (row.kind, row.system, *score.size_of(row)))
    order = sorted(groups, key=lambda key: (list(WHAT).index(key[0]), key[1], list(score.GPUS.values()).index(key[2]), key[3]))
    return markdown(["what", "system", "GPUs", "message", *HEAD], [[WHAT[key[0]], *key[1:], *cells(groups[key])] for key in order if key[1] != "any"])


# ---- Intervals ----
def intervals(entries):
    found = []
    for (kind, table, role), members in score.grouped(entries, lambda row: (row.kind, row.table, row.role)).items():
        if seen := score.coverage(members):
            found.append([table, WHAT[kind], role, count(seen["rows"]), percent(seen["inside"], 0), percent(seen["below"], 0), percent(seen["above"], 0),
                          f"±{percent(seen['width'], 0)}", f"±{percent(seen['needed'], 0)}", signed(score.errors(members)["bias"])])
    return markdown(["table", "what", "role", "rows", "inside", "measured below it", "above it", "its half width, median", "half width that holds 90 %",
                     "median error, signed"], found)


# ---- Layouts ----
def layouts_of(families):
    """[number, rows, median of Spearman's correlations, mean and largest regret, how often the best was chosen]"""
    correlations, regrets = [f[3] for f in families if f[3] is not None], [f[4] for f in families]
    return [len(families), sum(f[2] for f in families), f"{statistics.median(correlations):.2f}", percent(statistics.mean(regrets)), percent(max(regrets)),
            sum(f[5] == f[6] for f in families)]


LAYOUTS = ["families", "layouts", "rank correlation, median", "regret, mean", "regret, largest", "the best was chosen"]


def layouts(entries):
    """Lines by table, and those of the largest regrets."""
    families = score.families(entries)
    tables = list(dict.fromkeys(f[1] for f in families))
    worst = sorted((f for f in families if f[4] > 0), key=lambda f: -f[4])[:8]
    return [*markdown(["table", *LAYOUTS], [[table, *layouts_of([f for f in families if f[1] == table])] for table in tables]), "", "The largest regrets:", "",
            *markdown(["family", "layouts", "rank correlation", "regret", "predicted to be the best", "the best"],
                      [[f[0], f[2], "-" if f[3] is None else f"{f[3]:.2f}", percent(f[4]), f[5], f[6]] for f in worst])]


def repeats(entries):
    return markdown(["table", "the same job", "measured, s", "apart"],
                    [[rows[0].table, ", ".join(r.id for r in rows), ", ".join(f"{r.measured:g}" for r in rows), percent(apart)]
                     for rows, apart in score.repeats(entries)])


# ---- Memory ----
def verdicts(entries):
    found = []
    for table, members in score.grouped(entries, lambda row: row.table).items():
        if seen := score.verdicts(members):
            names = ", ".join(seen["missed"] + seen["false"][:8]) + (f" and {len(seen['false']) - 8} more" if len(seen["false"]) > 8 else "")
            found.append([table, seen["rows"], seen["out"], seen["found"], len(seen["missed"]), len(seen["false"]), names or "-"])
    return markdown(["table", "jobs", "ran out of memory", "of these found", "missed", "false alarms", "which"], found)


# ---- Rows that constants have not seen ----
def unseen(entries):
    """Collectives that were predicted twice, by constants fitted to all versions of NCCL, and by constants fitted to the other versions alone."""
    found = []
    groups = {}
    for pair in score.pairs(entries):
        if pair[1][0].kind == COLLECTIVE:
            groups.setdefault(pair[1][0].id.partition("/")[0], []).append(pair)
    for system, members in groups.items():
        of = [score.errors(side) for side in zip(*members)]
        found.append([system.removesuffix(UNSEEN), of[0]["rows"], *(text for e in of for text in (percent(e["median"]), percent(e["p90"])))])
    return markdown(["GPU and version of NCCL", "rows", "fitted: median", "p90", "left out: median", "p90"], found)


def ratio_text(ratio):
    """Where a constant was fitted to one row alone, its error is next to nothing, and the ratio says nothing."""
    if ratio is None or ratio > 100:
        return "fitted to it alone"
    return f"{ratio:.2f}" if ratio <= MOST_RATIO else f"**{ratio:.2f}**"


def unseen_steps(entries):
    """Training steps that were predicted twice, by the catalogue's constants, and by constants that have not seen a system."""
    groups, found = {}, []
    for pair in score.pairs(entries):
        if pair[1][0].unseen:
            groups.setdefault((pair[1][0].unseen, pair[0][0].table, pair[0][0].role), []).append(pair)
    for (without, table, role), members in groups.items():
        cells = []
        for side in zip(*members):
            of, inside = score.errors(side), score.coverage(side)
            cells += [percent(of["median"]), percent(of["p90"]), percent(inside["inside"], 0) if inside else "none stated"]
        found.append([without.constants, without.system, without.instead, table, role, len(members), *cells, ratio_text(score.ratio(members))])
    return markdown(["constants", "left out", "what stands for it", "table", "role", "rows", "with it: median", "p90", "inside the interval", "left out: median", "p90",
                     "inside the interval", "ratio of medians"], found)


def kernel_rows():
    """Of kernel_laws, shapes that training has."""
    rows = read_json(STUDIES / "kernel_laws/results.json")["rows"]
    return [row for row in rows if row["region"].endswith("or more")]


FAMILIES = {"bf16": "bf16 products", "attention": "attention, forward", "fp8": "fp8 products", "fp8_block": "fp8 products, blocks"}


def kernels():
    """A cell a source of measurements: median and p90, of how many shapes."""
    sources = list(dict.fromkeys(row["columns"] for row in kernel_rows()))
    groups = {}
    for row in kernel_rows():
        groups.setdefault((row["gpu"], row["family"]), {})[row["columns"]] = f"{percent(row['predicted'])}, {percent(row['p90'], 0)} ({count(row['rows'])})"
    return markdown(["GPU", "kernels", *(s.replace("us_", "").replace(",", " + ") for s in sources)],
                    [[gpu, FAMILIES[family], *(of.get(s, "") for s in sources)] for (gpu, family), of in groups.items()])


# ---- Summaries ----
PARTS = {"steps of training": lambda row: row.kind == STEP and not row.table.endswith("(a layer)"),
         "collectives, 1 MiB and more": lambda row: row.kind == COLLECTIVE and row.bytes >= LARGE,
         "collectives, less than 1 MiB": lambda row: row.kind == COLLECTIVE and row.bytes < LARGE,
         "memory, measured": lambda row: row.kind == MEMORY and not is_computed(row),
         "memory, computed by papers": lambda row: row.kind == MEMORY and is_computed(row)}


def short_cell(entries):
    found = score.errors(entries)
    return f"{percent(found['median'])} ({count(found['rows'])})" if found else "-"


def short(entries):
    """The summary of the project's README."""
    rows = []
    for name, belongs in PARTS.items():
        members = [e for e in published(entries) if belongs(e[0])]
        inside = score.coverage(members)
        rows.append([name, *(short_cell([e for e in members if e[0].role == role]) for role in ("validation", "development", "calibration")),
                     percent(inside["inside"], 0) if inside else "none stated"])
    families, memory = score.families(entries), score.verdicts(entries)
    chosen = layouts_of(families)
    return [*markdown(["median error (rows)", "validation", "development", "calibration", "inside the interval"], rows), "",
            f"Layouts: among {chosen[0]} families of layouts of one job, the rank correlation of predicted and measured times is {chosen[2]} (median), and the layout that",
            f"is predicted to be the best takes {chosen[3]} more than the best one (mean; at most {chosen[4]}). Memory: of {memory['out']} published jobs that ran out of it",
            f"{memory['found']} are predicted to; of {memory['rows'] - memory['out']} that ran, {len(memory['false'])} are predicted not to fit."]


def summary(entries):
    """Of docs/accuracy.md."""
    return [*short(entries), "", *by_table(published(entries))]


def body(entries):
    """Of table.md, and of the page."""
    rows = published(entries)
    return ["[README.md](README.md) says what is compared, and what the roles are. Errors are predicted / measured - 1; a median or p90 is of absolute errors, unless",
            "it is called signed. [page.html](page.html) has the picture with a row and its command behind every dot.", "",
            *short(entries), "", "![predicted over measured](scatter.svg)", "", "## By table and role", "", *by_table(rows), "",
            "## Intervals", "", *intervals(rows), "", "## Which layout is the best?", "", *layouts(rows), "",
            "## The same job twice", "", "No prediction can be nearer to both measurements than half of what they are apart.", "", *repeats(rows), "", "## Does it fit?", "", *verdicts(rows), "",
            "## Left out of the fit", "", "Steps of training, by constants that have not seen a system ([README.md](README.md) says what the lines are). **Bold**: more than 1.5.", "", *unseen_steps(entries), "",
            "NCCL within a node (`collective_sweeps/fit.py`):", "", *unseen(entries), "",
            "Kernels (`kernel_laws`; from its results.json, not predicted anew): median and p90 of errors on shapes that were left out (their number), by the source of",
            "the measurements that a law was fitted to:", "", *kernels(), "", "## By system and size", "", *by_system(rows)]


def insert(path, lines):
    """Between the marks of a page, which stay."""
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        fail(f"{path}: the lines \"{BEGIN}\" and \"{END}\" are missing")
    path.write_text("\n".join([before + begin, *lines, end + after]))
