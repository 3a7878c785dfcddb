"use strict";
// Where the step goes: the parts of rank 0's traced steps, as `twofold compare` counts them: kernels by class, the
// communication that compute waits for by collective, waiting for other ranks, other waits, and the rest, in which the
// host is between kernels. They add up to the traced step.

// Where the time of a kernel comes from, in a word and in a sentence. Its interval: how far off it may be.
const SOURCES = {
  MEASURED: ["measured", "timed in this run; the interval is from the 10th to the 90th percentile of the calls"],
  CALIBRATED: ["calibrated", "calibration has timed this kernel at this very size; the interval is what it saw, and how far off whole jobs were"],
  TABLE: ["table", "interpolated between the sizes that calibration has timed; the interval is wider by what held-out sizes were off"],
  LAW: ["law", "a law whose constants were fitted to measurements of such types and sizes; the interval holds nine of ten measurements that were left out of the fit"],
  DATA_SHEET: ["data sheet", "the device's peaks, bandwidth and assumed efficiencies; the interval is assumed"],
  EXTRAPOLATED: ["extrapolated", "from measurements of other sizes, types or kernels; the interval is widened for it"],
};

// "±30 %", or "−4.1 % to +12 %": the interval, from `seconds`.
function intervalText({seconds, low, high}) {
  if (!(seconds > 0) || low === high) return "";
  const size = (share) => d3.format(Math.abs(share) < 0.0995 ? ".1f" : ",.0f")(100 * Math.abs(share)) + " %";
  const below = low / seconds - 1, above = high / seconds - 1, signed = (share) => (share < 0 ? "−" : "+") + size(share);
  return below <= 0 && above >= 0 && size(below) === size(above) ? "±" + size(above) : `${signed(below)} to ${signed(above)}`;
}

// Operations a second, or else bytes.
function kernelRate({seconds, flops, bytes}) {
  if (!(seconds > 0)) return "";
  return flops > 0 ? (flops / seconds / 1e12).toPrecision(3) + " TFLOP/s" : bytes > 0 ? (bytes / seconds / 1e9).toPrecision(3) + " GB/s" : "";
}

// A kernel of a report as a row of the table. Rates are those of its shapes.
function kernelRow(kernel) {
  const shapes = kernel.shapes.filter((s) => s.shape !== ""), all = kernel.shapes;
  return {name: kernel.kernel, seconds: kernel.seconds, count: kernel.count, shapes, low: d3.sum(all, (s) => s.low), high: d3.sum(all, (s) => s.high),
          sources: Object.keys(SOURCES).filter((source) => all.some((s) => s.source === source))};
}

function partsOf(run) {
  const report = run.report, parts = [];
  const classes = new Map();
  for (const kernel of report.kernels) {
    const name = run.kernel_classes[kernel.kernel] ?? "other";
    const part = classes.get(name) ?? {key: "k:" + name, name: CLASS_NAMES[name], colour: CLASS_COLOURS[name], seconds: 0, inside: []};
    part.seconds += kernel.seconds, part.inside.push(kernelRow(kernel));
    classes.set(name, part);
  }
  parts.push(...[...classes.values()].sort((a, b) => b.seconds - a.seconds));
  const exposed = report.collectives.filter((c) => c.exposed_seconds > 0);
  parts.push({key: "exposed", name: "exposed communication", colour: "red", seconds: d3.sum(exposed, (c) => c.exposed_seconds),
              inside: exposed.map((c) => ({name: `${c.operation} on ${c.group}`, seconds: c.exposed_seconds}))});
  parts.push({key: "waiting", name: "waiting for other ranks", colour: "soft", seconds: report.waiting_seconds ?? 0, inside: []});
  parts.push({key: "waits", name: "other waits", colour: "teal", seconds: report.exposed_other_seconds ?? 0, inside: []});
  const rest = report.traced_step_seconds - d3.sum(parts, (p) => p.seconds);
  parts.push({key: "host", name: "the host, between kernels", colour: "grey", seconds: Math.max(0, rest), inside: []});
  return parts.filter((p) => p.seconds > 0);
}

class StepView {
  constructor(root, runs) {
    this.runs = runs.filter((run) => run.report.traced_step_seconds > 0);
    this.parts = this.runs.map(partsOf);
    this.shown = new Set();  // sources of the figures in the table
    root.append(this.bars(), this.table());
  }

  bars() {
    const longest = d3.max(this.runs, (run) => run.report.traced_step_seconds), box = element("div", {class: "bars"});
    this.runs.forEach((run, i) => {
      const bar = element("div", {class: "stack", style: `width:${100 * run.report.traced_step_seconds / longest}%`});
      for (const part of this.parts[i]) {
        const share = part.seconds / run.report.traced_step_seconds;
        const piece = element("button", {type: "button", style: `flex-grow:${share};background:var(--${part.colour})`, "aria-label": `${part.name}: ${secondsText(part.seconds)}`});
        const lines = () => [part.name, secondsText(part.seconds), shareText(share) + " of the step", ...part.inside.slice(0, 8).map((x) => `${x.name}: ${secondsText(x.seconds)}`)];
        piece.addEventListener("pointermove", (event) => tip.show(event, lines()));
        piece.addEventListener("pointerleave", () => tip.hide());
        piece.addEventListener("click", () => this.open(part.key));
        bar.append(piece);
      }
      box.append(element("div", {class: "sub"}, `${run.title}: ${secondsText(run.report.traced_step_seconds)}`), bar);
    });
    return box;
  }

  // A row for each part of any run, the largest first; a click opens what is in it.
  table() {
    const keys = d3.groupSort(this.parts.flat(), (same) => -d3.max(same, (p) => p.seconds), (p) => p.key);
    const head = element("tr", {}, element("th", {}, "a step of rank 0, mean of the traced ones"), ...this.runs.map((r) => element("th", {}, r.title)));
    if (this.runs.length === 2) head.append(element("th", {}, "first − second"));
    const table = element("table", {id: "step-table"}, head);
    const cells = (values, raw) => {
      const made = values.map((v) => element("td", raw ? {"data-seconds": v ?? 0} : {}, v === undefined ? "-" : secondsText(v)));
      return [...made, ...this.difference(values)];
    };
    table.append(element("tr", {class: "sum"}, element("td", {}, "all"), ...cells(this.runs.map((r) => r.report.traced_step_seconds), true)));
    this.inside = new Map();
    for (const key of keys) {
      const same = this.parts.map((parts) => parts.find((p) => p.key === key)), any = same.find(Boolean);
      const button = element("button", {type: "button", class: "opens", "aria-expanded": "false"}, any.name);
      const names = d3.groupSort(same.flatMap((p) => p?.inside ?? []), (of) => -d3.max(of, (x) => x.seconds), (x) => x.name);
      const swatch = element("i", {style: `background:var(--${any.colour})`});
      table.append(element("tr", {}, element("td", {}, swatch, names.length > 0 ? button : any.name), ...cells(same.map((p) => p?.seconds), true)));
      const rows = names.flatMap((name) => {
        const found = same.map((p) => p?.inside.find((x) => x.name === name));
        const calls = found.find((x) => x?.count)?.count, title = calls ? `${name}, ${countText(calls)} calls` : name;
        const row = element("tr", {class: "inside", hidden: ""}, element("td", {}, title), ...this.figures(name, found));
        return [row, ...this.shapeRows(name, found)];
      });
      table.append(...rows);
      this.inside.set(key, {button, rows});
      button.addEventListener("click", () => this.open(key));
    }
    const wrap = element("div", {class: "wrap"}, table), told = Object.entries(SOURCES).filter(([source]) => this.shown.has(source));
    const legend = element("dl", {class: "sources", id: "step-sources", hidden: ""}, ...told.flatMap(([, [word, sentence]]) => [element("dt", {}, word), element("dd", {}, sentence)]));
    return element("div", {}, wrap, legend);
  }

  difference(values) {
    return this.runs.length === 2 ? [element("td", {}, secondsText((values[0] ?? 0) - (values[1] ?? 0)))] : [];
  }

  // Cells of single kernels or of their shapes: seconds, rate, source and interval.
  figures(name, found) {
    const cells = found.map((x) => {
      if (x === undefined) return element("td", {}, "-");
      const cell = element("td", {"data-seconds": x.seconds}, secondsText(x.seconds));
      const sources = x.sources ?? [], words = sources.map((source) => SOURCES[source][0]).join(", ");
      if (sources.length === 0) return cell;
      for (const source of sources) this.shown.add(source);
      Object.assign(cell.dataset, {low: x.low, high: x.high, sources: sources.join(" "), ...(x.flops === undefined ? {} : {count: x.count, flops: x.flops, bytes: x.bytes})});
      const text = [kernelRate(x), words, intervalText(x)].filter(Boolean);
      cell.append(element("small", {}, text.join(" · ")));
      const lines = [x.shape ? `${name}: ${x.shape}` : name, secondsText(x.seconds) + " of a step", kernelRate(x), `from ${secondsText(x.low)} to ${secondsText(x.high)}`, ...sources.map((source) => SOURCES[source].join(": "))];
      cell.addEventListener("pointermove", (event) => tip.show(event, lines));
      cell.addEventListener("pointerleave", () => tip.hide());
      return cell;
    });
    return [...cells, ...this.difference(found.map((x) => x?.seconds))];
  }

  // Of one kernel, a row for each shape that any run called it with.
  shapeRows(name, found) {
    const shapes = new Set(found.flatMap((x) => x?.shapes?.map((s) => s.shape) ?? []));
    return [...shapes].map((shape) => {
      const of = found.map((x) => x?.shapes?.find((s) => s.shape === shape)).map((s) => s && {...s, sources: [s.source]});
      const calls = of.find(Boolean).count, title = `${shape}: ${countText(Math.round(calls))} calls`;
      return element("tr", {class: "inside shape", hidden: ""}, element("td", {}, title), ...this.figures(name, of));
    });
  }

  open(key) {
    const {button, rows} = this.inside.get(key);
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    for (const row of rows) row.hidden = !open;
    document.getElementById("step-sources").hidden = this.shown.size === 0 || [...this.inside.values()].every((part) => part.rows.every((row) => row.hidden));
  }
}
