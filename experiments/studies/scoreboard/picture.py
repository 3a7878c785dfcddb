"""The picture: a panel for steps, collectives and memory. Above, predicted over measured; below, their ratio. A dot is a row."""
import collections
import dataclasses
import math

from common import signed
from common.published import COLLECTIVE, LARGE, LEFT_OUT, MEMORY, STEP
import score

WIDE, HIGH, STRIP, GAP, LEFT, TOP = 330, 330, 150, 66, 62, 64
COLOURS = ("#1f5fa8", "#d2691e", "#2a8c4a", "#a13a8f", "#8c6d1f", "#c0392b", "#17808c", "#6a5acd", "#7f7f7f", "#4d7f17")
PANELS = {STEP: ("Time of a training step", "s", 1.9), COLLECTIVE: ("Time of a collective", "µs", 1.3), MEMORY: ("Memory of a rank", "GiB", 1.9)}
UNITS = {"s": 1, "µs": 1, "GiB": 1, "MiB": 2**-10, "GB": 1e9 / 2**30, "B": 2**-30}
FAR = math.log(1.3)  # median errors of systems beyond it are named
RATIO = 2.5  # the strip shows from its inverse up to it


@dataclasses.dataclass(frozen=True)
class Dot:
    row: object
    prediction: object
    colour: str
    x: float
    y: float
    y_ratio: float  # in the strip; at its edge if beyond


class Scale:
    def __init__(self, values, low, high):
        self.least, self.most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.low, self.high = low, high

    def __call__(self, value):
        return self.low + (self.high - self.low) * (math.log10(value) - self.least) / (self.most - self.least)

    def decades(self):
        return [10.0**n for n in range(self.least, self.most + 1)]


def left_of(kind):
    return LEFT + list(PANELS).index(kind) * (WIDE + GAP)


def ratio_y(ratio):
    inside = max(-1.0, min(1.0, math.log(ratio) / math.log(RATIO)))
    return TOP + HIGH + 34 + STRIP * (0.5 - 0.5 * inside)


def scales(entries, kind):
    values = [v * UNITS[row.unit] for row, p in entries if row.kind == kind for v in (row.measured, p.value)]
    left = left_of(kind)
    return Scale(values, left, left + WIDE), Scale(values, TOP + HIGH, TOP)


def shown(entries):
    return [e for e in entries if not e[0].table.endswith(LEFT_OUT) and e[0].kind in PANELS]


def tables_of(entries, kind):
    """{table: colour}, with the most rows first, so that small tables are drawn above."""
    sizes = collections.Counter(row.table for row, _ in entries if row.kind == kind)
    return {table: COLOURS[i % len(COLOURS)] for i, (table, _) in enumerate(sizes.most_common())}


def dots(entries):
    """Of entries that have errors, in the order in which they are drawn."""
    found, entries = [], shown(entries)
    for kind in PANELS:
        if not any(row.kind == kind for row, _ in entries):
            continue
        (x, y), colours = scales(entries, kind), tables_of(entries, kind)
        for table, colour in colours.items():
            for row, p in entries:
                if row.table == table and row.kind == kind:
                    unit = UNITS[row.unit]
                    found.append(Dot(row, p, colour, round(x(row.measured * unit), 1), round(y(p.value * unit), 1), round(ratio_y(p.value / row.measured), 1)))
    return found


# ---- Markers: a shape a role ----
def marks(role, places, size):
    """Attributes and data of one path for all places. Circles are round ends of lines without length."""
    if role == "validation":
        return f'stroke-width="{2 * size:g}" stroke-linecap="round"', "".join(f"M{x} {y}h0" for x, y in places)
    a = round(size * 1.05, 2)
    if role == "development":
        return 'class="full"', "".join(f"M{x} {round(y - 1.2 * a, 2):g}l{a:g} {1.9 * a:g}h{-2 * a:g}z" for x, y in places)
    if role == "calibration":
        return 'stroke-width="0.8"', "".join(f"M{round(x - a, 2):g} {round(y - a, 2):g}l{2 * a:g} {2 * a:g}m0 {-2 * a:g}l{-2 * a:g} {2 * a:g}" for x, y in places)
    return 'stroke-width="0.8"', "".join(f"M{round(x - a, 2):g} {y}h{2 * a:g}m{-a:g} {-a:g}v{2 * a:g}" for x, y in places)


def path(dots, y_of, size):
    out = []
    groups = collections.defaultdict(list)
    for dot in dots:
        groups[dot.colour, dot.row.role].append((dot.x, y_of(dot)))
    for (colour, role), places in groups.items():
        attributes, data = marks(role, places, size)
        fill = f'fill="{colour}"' if 'class="full"' in attributes else f'fill="none" stroke="{colour}"'
        out.append(f'<path {attributes} {fill} opacity="0.75" d="{data}"/>')
    return out


def bias_text(entries):
    return signed(round(score.errors(entries)["bias"], 2) + 0.0, 0)  # + 0.0: of no error, no minus


# ---- Axes ----
def number(value):
    return f"{value:g}" if 1e-3 <= value < 1e4 else f"10<tspan dy=\"-4\" font-size=\"8\">{round(math.log10(value))}</tspan>"


def axes(kind, x, y):
    title, unit, _ = PANELS[kind]
    left, bottom = left_of(kind), TOP + HIGH
    out = [f'<text x="{left}" y="{TOP - 10}" class="title">{title}, {unit}</text>']
    for decade in x.decades():
        out.append(f'<path class="grid" d="M{x(decade):.1f} {TOP}v{HIGH}M{left} {y(decade):.1f}h{WIDE}M{x(decade):.1f} {bottom + 34}v{STRIP}"/>')
        out.append(f'<text x="{left - 6}" y="{y(decade) + 3:.1f}" text-anchor="end">{number(decade)}</text>')
        out.append(f'<text x="{x(decade):.1f}" y="{bottom + 34 + STRIP + 15}" text-anchor="middle">{number(decade)}</text>')
    least, most = 10.0**x.least, 10.0**x.most
    shift = (WIDE / (x.most - x.least)) * math.log10(1.1)
    out.append(f'<clipPath id="clip-{kind}"><rect x="{left}" y="{TOP}" width="{WIDE}" height="{HIGH}"/></clipPath>')
    out.append(f'<path class="band" clip-path="url(#clip-{kind})" d="M{left} {bottom - shift:.1f}L{left + WIDE} {TOP - shift:.1f}v{2 * shift:.1f}L{left} {bottom + shift:.1f}z"/>')
    out.append(f'<path class="one" d="M{x(least):.1f} {y(least):.1f}L{x(most):.1f} {y(most):.1f}"/>')
    out.append(f'<rect class="band" x="{left}" width="{WIDE}" y="{ratio_y(1.1):.1f}" height="{ratio_y(1 / 1.1) - ratio_y(1.1):.1f}"/>')
    for ratio in (0.5, 1, 2):
        out.append(f'<path class="{"one" if ratio == 1 else "grid"}" d="M{left} {ratio_y(ratio):.1f}h{WIDE}"/>')
        out.append(f'<text x="{left - 6}" y="{ratio_y(ratio) + 3:.1f}" text-anchor="end">{ratio:g}</text>')
    out += [f'<rect class="frame" x="{left}" y="{TOP}" width="{WIDE}" height="{HIGH}"/>', f'<rect class="frame" x="{left}" y="{bottom + 34}" width="{WIDE}" height="{STRIP}"/>',
            f'<text x="{left + WIDE / 2}" y="{bottom + 34 + STRIP + 30}" text-anchor="middle" class="axis">measured, {unit}</text>',
            f'<text transform="translate({left - 42} {TOP + HIGH / 2}) rotate(-90)" text-anchor="middle" class="axis">predicted, {unit}</text>',
            f'<text transform="translate({left - 42} {bottom + 34 + STRIP / 2}) rotate(-90)" text-anchor="middle" class="axis">predicted / measured</text>']
    return out


def labels(kind, entries):
    """Of the tables, in the empty corner below the diagonal, from the bottom up."""
    colours = tables_of(entries, kind)
    out, right, at = [], left_of(kind) + WIDE - 8, TOP + HIGH - 9
    for table, colour in reversed(colours.items()):
        members = [e for e in entries if e[0].table == table and e[0].kind == kind]
        out.append(f'<text x="{right}" y="{at}" text-anchor="end" fill="{colour}">{table} · {len(members):,} · {bias_text(members)}</text>')
        at -= 12.5
    return out


def far_systems(entries, x, y):
    """The names of systems whose collectives of 1 MiB and more are far off, beside the dot that is farthest."""
    large = [e for e in entries if e[0].kind == COLLECTIVE and e[0].bytes >= LARGE]
    for system, members in score.grouped(large, lambda row: row.system).items():
        bias = score.errors(members)["bias"]
        if len(members) < 10 or abs(math.log(1 + bias)) < FAR:
            continue
        row, p = (min if bias < 0 else max)(members, key=score.error)
        side = 1 if bias < 0 else -1
        yield (f'<text class="far" x="{x(row.measured * UNITS[row.unit]) + 5 * side:.1f}" y="{y(p.value * UNITS[row.unit]) + 3 + 11 * side:.1f}" '
               f'text-anchor="{"start" if side > 0 else "end"}">{system}: {bias_text(members)}</text>')


def key():
    """Of the markers."""
    out, at = [], LEFT
    for role in ("validation", "development", "calibration", "none"):
        attributes, data = marks(role, [(at, 27)], 3)
        fill = 'fill="#333"' if "full" in attributes else 'fill="none" stroke="#333"'
        text = {"none": "no role (predicted by another GPU's constants)"}.get(role, role)
        out.append(f'<path {attributes} {fill} d="{data}"/><text x="{at + 8}" y="30.5">{text}</text>')
        at += 24 + 6 * len(text)
    return [*out, f'<rect class="band" x="{at}" y="22" width="22" height="10"/><text x="{at + 28}" y="30.5">within ±10 %</text>',
            f'<text x="{at + 110}" y="30.5">table · rows · median error, signed; ratios beyond {RATIO:g} are at the edge</text>']


STYLE = (".title{font-size:12px;font-weight:bold}.axis{fill:#444}.grid{stroke:#e4e4e4;fill:none}.one{stroke:#555;fill:none}.frame{fill:none;stroke:#999}"
         ".band{fill:#bfe3c6;opacity:.6;stroke:none}.far{paint-order:stroke;stroke:white;stroke-width:3px;fill:#333}")


def draw(dots):
    entries = [(dot.row, dot.prediction) for dot in dots]
    wide, high = LEFT + len(PANELS) * (WIDE + GAP) - GAP + 20, TOP + HIGH + 34 + STRIP + 42
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="10">', f"<style>{STYLE}</style>",
           f'<rect width="{wide}" height="{high}" fill="white"/>',
           f'<text x="{LEFT - 3}" y="15" font-size="13" font-weight="bold">Published rows, predicted over measured: a dot a row</text>', *key()]
    for kind, (_, _, size) in PANELS.items():
        members = [dot for dot in dots if dot.row.kind == kind]
        if members:
            x, y = scales(entries, kind)
            out += [*axes(kind, x, y), *path(members, lambda dot: dot.y, size), *path(members, lambda dot: dot.y_ratio, size), *labels(kind, entries),
                    *(far_systems(entries, x, y) if kind == COLLECTIVE else [])]
    return "\n".join([*out, "</svg>", ""])
