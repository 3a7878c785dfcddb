"""One HTML page: the picture, in which the nearest dot shows its row and the command that predicts it, and the tables."""
import html as escaped
import json
import re

SHOWN = 12  # units of the picture: how near the pointer must be to a dot

STYLE = """body{font:15px/1.45 sans-serif;max-width:1180px;margin:24px auto;padding:0 16px;color:#222}table{border-collapse:collapse;font-size:13px;margin:10px 0 22px}
td,th{border:1px solid #ddd;padding:3px 8px;text-align:left}th{background:#f4f4f4}h2{margin-top:32px}code{background:#f2f2f2;padding:1px 4px}
#row{position:sticky;top:0;background:#fffff4;border:1px solid #ddd;padding:6px 10px;min-height:44px;font-size:13px}svg{width:100%;height:auto;cursor:crosshair}"""

SCRIPT = """
const svg = document.querySelector('svg'), shown = document.getElementById('row');
const ring = document.createElementNS(svg.namespaceURI, 'circle');
ring.setAttribute('r', 5); ring.setAttribute('fill', 'none'); ring.setAttribute('stroke', '#000'); ring.setAttribute('visibility', 'hidden'); svg.append(ring);
let held = false;
function nearest(event) {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  let best = null, least = REACH * REACH;
  for (const dot of DOTS) for (const y of [dot[7], dot[8]]) {
    const far = (dot[6] - point.x) ** 2 + (y - point.y) ** 2;
    if (far < least) { least = far; best = [dot, y]; }
  }
  return best;
}
function show([[id, group, measured, predicted, low, high, x], y]) {
  const [table, role, unit, system, gpus] = GROUPS[group];
  const digits = v => Number(v.toPrecision(5)), error = 100 * (predicted / measured - 1);
  const interval = low === null ? '' : ` (${digits(low)} to ${digits(high)}${low <= measured && measured <= high ? '' : ': measured is outside'})`;
  shown.replaceChildren(Object.assign(document.createElement('b'), {textContent: id}),
      ` ${table}, ${role}; ${system}, ${gpus} GPUs: measured ${digits(measured)} ${unit}, predicted ${digits(predicted)}${interval}, ${error > 0 ? '+' : ''}${error.toFixed(1)} %`,
      document.createElement('br'), Object.assign(document.createElement('code'), {textContent: `experiments/studies/scoreboard/run.py --spec=${id}`}));
  ring.setAttribute('cx', x); ring.setAttribute('cy', y); ring.setAttribute('visibility', 'visible');
}
svg.addEventListener('mousemove', event => { const found = held ? null : nearest(event); if (found) show(found); });
svg.addEventListener('click', event => { const found = nearest(event); held = Boolean(found); if (found) show(found); });
"""


def inline(text):
    """Markdown within a line."""
    text = escaped.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)


def table(lines):
    rows = [[inline(cell.strip()) for cell in line.strip().strip("|").split(" |")] for line in lines if not line.startswith("|---")]
    cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
    return ["<table>", cells(rows[0], "th"), *(cells(row, "td") for row in rows[1:]), "</table>"]


def elements(body, svg):
    """HTML of the lines of table.md."""
    out, at = [], 0
    while at < len(body):
        end = at
        while end < len(body) and body[end].startswith("|") == body[at].startswith("|") and body[end]:
            end += 1
        block, at = body[at:end], max(end, at + 1)
        if not block:
            continue
        if block[0].startswith("|"):
            out += table(block)
        elif block[0].startswith("!["):
            out += ['<p id="row">Point at a dot to see its row and the command that predicts it; click to hold it.</p>', svg]
        elif block[0].startswith("#"):
            out.append(f"<h2>{inline(block[0].lstrip('# '))}</h2>")
        else:
            out.append(f"<p>{inline(' '.join(block))}</p>")
    return out


def data(dots):
    """(groups, dots) for the script; numbers as in results.json would be, to five digits."""
    groups, found = {}, []
    short = lambda value: None if value is None else float(f"{value:.5g}")
    for dot in dots:
        row, p = dot.row, dot.prediction
        group = groups.setdefault((row.table, row.role, row.unit, row.system, row.gpus), len(groups))
        found.append([row.id, group, short(row.measured), short(p.value), short(p.low), short(p.high), dot.x, dot.y, dot.y_ratio])
    compact = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "[" + ",\n".join(map(compact, groups)) + "]", "[" + ",\n".join(map(compact, found)) + "]"


def html(body, svg, dots):
    groups, points = data(dots)
    return "\n".join(['<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Twofold: every published row, predicted</title>', f"<style>{STYLE}</style></head><body>",
                      "<h1>Every published row, predicted</h1>", *elements(body, svg), f"<script>const REACH = {SHOWN}, GROUPS = {groups}, DOTS = {points};{SCRIPT}</script>",
                      "</body></html>", ""])
