"use strict";
// What links carry: the topology's picture at a moment, and a heat map of link by time, as shares of their bandwidth. Links that carry the same at the same time
// share a row; the busiest are on top. The table has the same as figures. The link that is chosen tells what flows over it.

const LINK = 18;   // pixels, of a row
const FEW = 10;    // links that are drawn at first

class NetworkView {
  constructor(root, runs, shared) {
    this.runs = runs.filter((run) => run.links.rows.length > 0);
    this.shared = shared;
    for (const run of this.runs) for (const row of run.links.rows) addLoads(run.links, row);
    this.all = false;
    this.chosen = {run: this.runs[0], row: this.runs[0].links.rows[0]};
    this.picture = new NetworkPicture(root, this.runs, shared);
    const most = element("button", {type: "button", id: "links-all", "aria-pressed": "false"}, `all of the ${countText(d3.max(this.runs, (run) => run.links.rows.length))} rows`);
    most.hidden = this.runs.every((run) => run.links.rows.length <= FEW);
    most.addEventListener("click", () => {
      this.all = !this.all;
      most.setAttribute("aria-pressed", this.all);
      this.shared.set({});
    });
    const frame = element("div");
    root.append(element("div", {class: "bar"}, most), frame);
    this.view = new TimeCanvas(frame, shared, "What links carry over time. The table below has the same as figures.");
    this.view.hovered = (event) => this.hover(event);
    this.view.clicked = (event) => { const at = this.rowAt(event); if (at) this.choose(at); };
    this.flows = element("table", {id: "link-flows"});
    root.append(this.legend(), element("div", {class: "wrap"}, this.table()), element("div", {class: "wrap"}, this.flows));
    this.tell();
    shared.changed(() => this.draw());
  }

  legend() {
    const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => element("span", {}, element("i", {class: "load", style: `background:color-mix(in srgb,var(--blue) ${100 * share}%,var(--panel))`}), shareText(share)));
    return element("p", {class: "legend"}, "share of the link's bandwidth in use:", ...steps);
  }

  rowsOf(run) { return this.all ? run.links.rows : run.links.rows.slice(0, FEW); }

  draw() {
    if (this.view.unseen) return;
    let y = AXIS + 4;
    this.places = [];
    for (const run of this.runs) {
      y += RUN;
      for (const row of this.rowsOf(run)) this.places.push({run, row, y}), y += LINK;
    }
    const context = this.view.begin(y + 4), right = this.view.width - 8;
    this.view.axis(context);
    const colour = d3.scaleLinear([0, 1], [theme.colour("panel"), theme.colour("blue")]).clamp(true);
    let last = null;
    for (const {run, row, y: top} of this.places) {
      context.fillStyle = theme.colour("ink"), context.textAlign = "left";
      if (run !== last) context.fillText(run.title, 4, top - RUN / 2);
      last = run;
      const chosen = row === this.chosen.row;
      context.fillStyle = theme.colour(chosen ? "ink" : "soft");
      fillLinkName(context, linkName(row), top + LINK / 2);
      context.fillStyle = theme.colour("panel"), context.fillRect(GUTTER, top + 1, right - GUTTER, LINK - 2);
      this.drawRow(context, run.links, row, top, right, colour);
      if (chosen) context.strokeStyle = theme.colour("ink"), context.lineWidth = 1, context.strokeRect(GUTTER - 0.5, top + 0.5, right - GUTTER, LINK - 1);
    }
    this.view.cursor(context);
  }

  drawRow(context, links, row, top, right, colour) {
    const x = this.view.scale;
    row.loads.forEach((load, bin) => {
      const from = Math.max(GUTTER, x(links.begin + bin * links.width)), to = Math.min(right, x(links.begin + (bin + 1) * links.width));
      if (load === 0 || to <= from) return;
      context.fillStyle = colour(load);
      context.fillRect(from, top + 1, Math.max(0.5, to - from), LINK - 2);
    });
  }

  rowAt(event) {
    const y = event.clientY - this.view.canvas.getBoundingClientRect().top;
    return this.places.find((at) => y >= at.y && y < at.y + LINK);
  }

  hover(event) {
    const at = this.rowAt(event), t = this.view.timeAt(event);
    if (!at) return tip.hide();
    const {links} = at.run, bin = Math.floor((t - links.begin) / links.width), bytes = at.row.bytes[bin] ?? 0, from = links.begin + bin * links.width;
    tip.show(event, [linkName(at.row), at.row.kind, `${rateText(bytes / links.width)}, ${shareText(at.row.loads[bin] ?? 0)} of its ${rateText(at.row.bandwidth)}`,
                     `${bytesText(Math.round(bytes))} from ${secondsText(Math.max(0, from))} to ${secondsText(from + links.width)}`, "a click says what flows over it"]);
  }

  choose({run, row}) {
    this.chosen = {run, row};
    this.tell();
    this.shared.set({});
  }

  table() {
    const head = ["link", "joins", "links alike", "bandwidth", "bytes", "mean load", "highest load"];
    const table = element("table", {id: "link-table"}, element("tr", {}, ...head.map((h, i) => element("th", i === 1 ? {class: "left"} : {}, h))));
    for (const run of this.runs) {
      const seconds = d3.max(run.links.rows, (row) => row.bytes.length) * run.links.width;
      if (this.runs.length > 1) table.append(element("tr", {class: "sum"}, element("td", {}, run.title)));
      for (const row of run.links.rows.slice(0, FEW)) {
        const opens = element("button", {type: "button", class: "opens"}, row.link);
        opens.addEventListener("click", () => this.choose({run, row}));
        table.append(element("tr", {}, element("td", {}, opens), element("td", {class: "left"}, row.kind), element("td", {}, countText(row.links)), element("td", {}, rateText(row.bandwidth)),
                             element("td", {"data-bytes": row.total}, bytesText(Math.round(row.total))), element("td", {}, shareText(row.total / row.bandwidth / seconds)),
                             element("td", {}, shareText(d3.max(row.loads)))));
      }
    }
    return table;
  }

  // What flows over the chosen link; the rows sum to its bytes.
  tell() {
    const {run, row} = this.chosen;
    const of = (flow) => flow[0] ? `${flow[0]} on ${flow[1]}` : "what had begun before the traced steps";
    this.flows.replaceChildren(
      element("tr", {}, element("th", {}, `over ${row.link}` + (this.runs.length > 1 ? `, ${run.title}` : "")), element("th", {}, "times"), element("th", {}, "bytes"), element("th", {}, "share")),
      ...row.flows.map((flow) => element("tr", {}, element("td", {}, of(flow)), element("td", {}, flow[2] ? countText(flow[2]) : "-"), element("td", {"data-bytes": flow[3]}, bytesText(Math.round(flow[3]))),
                                         element("td", {}, shareText(flow[3] / row.total)))));
  }
}

function addLoads(links, row) {
  row.total = d3.sum(row.bytes);
  row.loads = row.bytes.map((bytes) => bytes / (links.width * row.bandwidth));
}

// In a narrower type if it is long, then with its middle left out; the tooltip and the table have it in whole.
function fillLinkName(context, name, y) {
  const font = context.font, room = GUTTER - 8;
  if (context.measureText(name).width > room) context.font = font.replace("12px", "10px");
  let shown = name;
  for (let left = name.length - 1; context.measureText(shown).width > room && left > 4; --left)
    shown = name.slice(0, Math.ceil(left / 2)) + "…" + name.slice(name.length - Math.floor(left / 2));
  context.fillText(shown, 4, y);
  context.font = font;
}

const linkName = (row) => row.links > 1 ? `${row.link} and ${countText(row.links - 1)} like it` : row.link;

function rateText(v) {
  return v >= 1e9 ? (v / 1e9).toPrecision(4) + " GB/s" : (v / 1e6).toPrecision(4) + " MB/s";
}
