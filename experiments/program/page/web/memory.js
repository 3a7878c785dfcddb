"use strict";
// Memory over time: for each run one rank, categories stacked, reserved bytes above them. At the cursor, or at the peak,
// a table tells the categories of all runs; their sum is what is live. Below it, memory_blocks.js tells whose it is. A
// click keeps the instant.

const AREA = 170;  // pixels, of a run

class MemoryView {
  constructor(root, runs, shared) {
    this.runs = runs.filter((run) => run.memory.length > 0);
    this.shared = shared;
    this.chosen = new Map(this.runs.map((run) => [run, d3.greatest(run.memory, (m) => d3.max(m.totals))]));
    const bar = element("div", {class: "bar"});
    this.runs.forEach((run, i) => bar.append(this.rankChoice(run, i)));
    root.append(bar);
    const frame = element("div");
    root.append(frame);
    this.view = new TimeCanvas(frame, shared, "Memory by category over time. The table below has the figures at the cursor.");
    this.kept = null;  // seconds: what is told while the pointer is elsewhere; null: the peak
    this.view.clicked = (event) => { this.keep(this.view.timeAt(event)); };
    this.peak = element("button", {id: "memory-peak"}, "at the peak");
    this.peak.addEventListener("click", () => this.keep(null));
    this.table = element("table", {id: "memory-table"});
    root.append(this.legend(), element("div", {class: "bar"}, this.peak, "A click into the picture keeps that instant."), element("div", {class: "wrap"}, this.table));
    this.blocks = new BlocksView(root, this.runs, (run) => this.chosen.get(run));
    shared.changed(() => this.draw());
  }

  keep(seconds) {
    this.kept = seconds;
    this.shared.set({});
  }

  rankChoice(run, i) {
    const select = element("select", {id: "memory-rank-" + i, "aria-label": "rank of " + run.title});
    for (const m of run.memory) {
      const option = element("option", {value: m.rank}, run.rankOf.get(m.rank)?.name ?? "rank " + m.rank);
      option.selected = m === this.chosen.get(run);
      select.append(option);
    }
    select.addEventListener("change", () => {
      this.chosen.set(run, run.memory.find((m) => m.rank === Number(select.value)));
      this.shared.set({});
    });
    return element("label", {}, run.title + ": ", select);
  }

  legend() {
    const entries = this.runs[0].categories.map((c) =>
      element("span", {}, element("i", {style: `background:var(--${CATEGORY_COLOURS[c] ?? "grey"})`}), c.replace("_", " ")));
    entries.push(element("span", {}, "dashes: reserved"));
    return element("p", {class: "legend"}, ...entries);
  }

  draw() {
    this.tell();
    if (this.view.unseen) return;
    const context = this.view.begin(AXIS + this.runs.length * (AREA + 26));
    this.view.axis(context);
    const highest = d3.max(this.runs, (run) => d3.max(this.chosen.get(run).reserved));
    this.runs.forEach((run, i) => this.drawRun(context, run, AXIS + 20 + i * (AREA + 26), highest));
    this.view.cursor(context);
  }

  drawRun(context, run, top, highest) {
    const memory = this.chosen.get(run), y = d3.scaleLinear([0, highest * 1.04 || 1], [top + AREA, top]), x = this.view.scale;
    context.fillStyle = theme.colour("ink"), context.textAlign = "left";
    const whose = run.report.memory_at_device ? "when the device reaches each change" : "when the host makes each change";
    context.fillText(`${run.title}, ${run.rankOf.get(memory.rank)?.name ?? "rank " + memory.rank}, ${whose}`, GUTTER, top - 9);
    context.textAlign = "right", context.strokeStyle = theme.colour("rule"), context.lineWidth = 1;
    for (const tick of byteTicks(highest)) {
      const at = Math.round(y(tick)) + 0.5;
      context.beginPath(), context.moveTo(GUTTER, at), context.lineTo(this.view.width - 8, at), context.stroke();
      context.fillStyle = theme.colour("soft"), context.fillText(bytesText(tick), GUTTER - 6, at);
    }
    const columns = this.columns(memory, x);
    const below = new Float64Array(columns.length);
    run.categories.forEach((category, c) => {
      context.fillStyle = theme.colour(CATEGORY_COLOURS[category] ?? "grey");
      const before = below.slice();
      context.beginPath();
      columns.forEach((column, k) => {
        below[k] += memory.live[c][column.index];
        context.lineTo(column.left, y(below[k])), context.lineTo(column.right, y(below[k]));
      });
      for (let k = columns.length - 1; k >= 0; --k) context.lineTo(columns[k].right, y(before[k])), context.lineTo(columns[k].left, y(before[k]));
      context.fill();
    });
    context.strokeStyle = theme.colour("ink"), context.setLineDash([5, 3]), context.lineWidth = 1.5, context.beginPath();
    columns.forEach((column, k) => {
      const at = y(memory.reserved[column.index]);
      k === 0 ? context.moveTo(column.left, at) : context.lineTo(column.left, at);
      context.lineTo(column.right, at);
    });
    context.stroke(), context.setLineDash([]);
  }

  // One for each change that can be told apart; where many fall on one pixel, the one with most bytes.
  columns(memory, x) {
    const columns = [], right = this.view.width - 8, seconds = (this.shared.to - this.shared.from) / (right - GUTTER);
    let i = Math.max(0, d3.bisectRight(memory.time, this.shared.from) - 1);
    while (i < memory.count && memory.time[i] <= this.shared.to) {
      const begin = Math.max(memory.time[i], this.shared.from);
      const next = firstFrom(memory.time, begin + seconds, i + 1, memory.count);
      let most = i;
      for (let k = i + 1; k < next; ++k) if (memory.totals[k] > memory.totals[most]) most = k;
      const left = x(begin), until = Math.min(right, x(next < memory.count ? memory.time[next] : this.shared.end));
      if (until > left) columns.push({left, right: Math.max(until, left + 1), index: most});
      i = next;
    }
    return columns;
  }

  // The table of what is live at the cursor, else at the instant that is kept, else at the highest peak.
  tell() {
    const t = this.shared.cursor ?? this.kept;
    const at = this.runs.map((run) => {
      const memory = this.chosen.get(run);
      return t === null ? d3.maxIndex(memory.totals) : Math.max(0, d3.bisectRight(memory.time, t) - 1);
    });
    const when = t === null ? "at the peak" : `at ${secondsText(t)}`, told = [when, ...at, ...this.runs.map((run) => this.chosen.get(run).rank), theme.colour("page"), this.view.room].join();
    if (told === this.told) return;
    this.told = told;
    const row = (name, value) => element("tr", {}, element("td", {}, name),
      ...this.runs.map((run, i) => {
        const bytes = value(this.chosen.get(run), at[i], run);
        return element("td", {"data-bytes": bytes}, bytesText(bytes));
      }));
    this.table.replaceChildren(
      element("tr", {}, element("th", {}, when), ...this.runs.map((run) => element("th", {}, run.title))),
      ...this.runs[0].categories.map((name, c) => row(name.replace("_", " "), (m, i) => m.live[c][i])),
      row("live", (m, i) => m.totals[i]),
      row("reserved, but not live", (m, i) => m.reserved[i] - m.totals[i]),
      row("reserved", (m, i) => m.reserved[i]));
    this.blocks.tell(at, when);
  }
}

function byteTicks(highest) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(highest, 1) / 4));
  return d3.range(0, highest, step);
}

function addTotals(run) {
  for (const memory of run.memory) {
    memory.totals = new Float64Array(memory.count);
    for (const live of memory.live) live.forEach((value, i) => { memory.totals[i] += value; });
  }
}
