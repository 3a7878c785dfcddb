"""The picture: a grid of models by numbers of GPUs for each cluster; colours are kinds of layouts."""
from common import count, percent
from jobs import MODELS
import lines

WIDE, HIGH, LEFT, TOP, GAP = 74, 34, 92, 46, 40
NONE = "nothing fits (-), or not known (?)"
KINDS = [("one process", "#e8e8e8"), ("data parallel (DDP, ZeRO)", "#bcd7ee"), ("with tensor parallelism", "#c7e5c4"), ("with a pipeline", "#f6dfae"),
         ("with tensor parallelism and a pipeline", "#eec3b5"), ("with expert parallelism", "#d9c8ea"), ("only with offload", "#d0d0a8"), (NONE, "#ffffff")]
COLOURS = dict(KINDS)


def kind(row):
    if row["predicted"] is None:
        return NONE
    if row["only_with_offload"]:
        return "only with offload"
    words = lines.short(row["layout_text"]).split(", ")
    has = {word.split()[0] for word in words}
    if "ep" in has:
        return "with expert parallelism"
    if {"tp", "pp"} <= has:
        return "with tensor parallelism and a pipeline"
    if "tp" in has:
        return "with tensor parallelism"
    if "pp" in has:
        return "with a pipeline"
    return "one process" if row["gpus"] == 1 else "data parallel (DDP, ZeRO)"


def _degrees(row):
    """Two short lines."""
    if row["predicted"] is None:
        return ("?", "") if row["open"] else ("-", "")
    words = lines.short(row["layout_text"]).split(", ")
    axes = [word.replace(" ", "") for word in words if word.split()[0] in ("tp", "pp", "ep")]
    sharding = next((word.split()[0] for word in words if word.split()[0] in ("DDP", *lines.NAMES.values())), "")
    return " ".join(axes) or sharding or "1", f"{sharding + ' ' if axes and sharding else ''}{percent(row['mfu'], 0)}"


def panel(rows, cluster, x, y):
    parts = [f'<text x="{x}" y="{y + 14}" class="title">{cluster.title}</text>']
    by_job = {(row["model"], row["gpus"]): row for row in rows if row["cluster"] == cluster.name}
    for i, gpus in enumerate(cluster.gpus):
        parts.append(f'<text x="{x + LEFT + i * WIDE + WIDE / 2}" y="{y + TOP - 8}" text-anchor="middle">{count(gpus)}</text>')
    for j, model in enumerate(MODELS):
        top = y + TOP + j * HIGH
        parts.append(f'<text x="{x + LEFT - 8}" y="{top + HIGH / 2 + 4}" text-anchor="end">{model.name}</text>')
        for i, gpus in enumerate(cluster.gpus):
            row, left = by_job[model.name, gpus], x + LEFT + i * WIDE
            parts.append(f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="{COLOURS[kind(row)]}" stroke="#fff"/>')
            for k, text in enumerate(_degrees(row)):
                parts.append(f'<text x="{left + WIDE / 2}" y="{top + 14 + 13 * k}" text-anchor="middle" class="small">{text}</text>')
    return parts


def svg(rows):
    shown = lines.clusters(rows)
    tall = TOP + len(MODELS) * HIGH + GAP
    across = LEFT + max(len(c.gpus) for c in shown) * WIDE + GAP
    places = [(20 + (i % 2) * across, 10 + (i // 2) * tall) for i in range(len(shown))]
    bottom = 10 + (len(shown) + 1) // 2 * tall
    parts = [part for cluster, (x, y) in zip(shown, places) for part in panel(rows, cluster, x, y)]
    for i, (name, colour) in enumerate(KINDS):
        x, y = 30 + (i % 4) * 290, bottom + (i // 4) * 24
        parts.append(f'<rect x="{x}" y="{y}" width="16" height="16" fill="{colour}" stroke="#999"/><text x="{x + 24}" y="{y + 13}">{name}</text>')
    wide, high = 20 + across * min(2, len(shown)), bottom + 60
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12">',
                      "<style>.title{font-weight:bold;font-size:14px}.small{font-size:10.5px}</style>", f'<rect width="{wide}" height="{high}" fill="white"/>',
                      *parts, "</svg>", ""])
