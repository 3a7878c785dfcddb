"use strict";
// Where the step goes: the parts of rank 0's traced steps, as `twofold compare` counts them: kernels by class, the
// communication that compute waits for by collective, waiting for other ranks, other waits, and the rest, in which the
// host is between kernels. They add up to the traced step.

// By kernel: its calls by shape in rank 0's traced steps, those that take most first; shares of the kernel's calls and time.
function shapesOf(run) {
  const lane = run.lanes.find((l) => l.rank === 0 && l.stream === "compute"), kernels = new Map();
  for (let i = 0; i < (lane?.count ?? 0); ++i) {
    const name = run.names[lane.name[i]], shape = run.shapes[lane.shape[i]];
    if (!shape) continue;
    const kernel = kernels.get(name) ?? {calls: 0, seconds: 0, shapes: new Map()}, seconds = lane.end[i] - lane.start[i];
    const of = kernel.shapes.get(shape) ?? {shape, calls: 0, seconds: 0};
    of.calls += 1, of.seconds += seconds, kernel.calls += 1, kernel.seconds += seconds;
    kernel.shapes.set(shape, of), kernels.set(name, kernel);
  }
  const shares = ({calls, seconds, shapes}) => [...shapes.values()].map((of) => ({shape: of.shape, calls: of.calls / calls, seconds: seconds > 0 ? of.seconds / seconds : 0}))
    .sort((a, b) => b.seconds - a.seconds);
  return new Map([...kernels].map(([name, kernel]) => [name, shares(kernel)]));
}

// Of products m x n x k: multiplications and additions in a second.
function rateOf(name, shape, calls, seconds) {
  const dims = shape.split(",")[0].split(" x ").map(Number);
  if (!/^(batched_)?matmul_/.test(name) || dims.length !== 3 || !(seconds > 0)) return "";
  return `, ${(2 * dims[0] * dims[1] * dims[2] * calls / seconds / 1e12).toPrecision(3)} TFLOP/s`;
}

function partsOf(run) {
  const report = run.report, parts = [], shapes = shapesOf(run);
  const classes = new Map();
  for (const kernel of report.kernels) {
    const name = run.kernel_classes[kernel.kernel] ?? "other";
    const part = classes.get(name) ?? {key: "k:" + name, name: CLASS_NAMES[name], colour: CLASS_COLOURS[name], seconds: 0, inside: []};
    part.seconds += kernel.seconds, part.inside.push({name: kernel.kernel, seconds: kernel.seconds, count: kernel.count, shapes: shapes.get(kernel.kernel) ?? []});
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
    const two = this.runs.length === 2;
    if (two) head.append(element("th", {}, "first − second"));
    const table = element("table", {id: "step-table"}, head);
    const cells = (values, raw) => {
      const made = values.map((v) => element("td", raw ? {"data-seconds": v ?? 0} : {}, v === undefined ? "-" : secondsText(v)));
      if (two) made.push(element("td", {}, secondsText((values[0] ?? 0) - (values[1] ?? 0))));
      return made;
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
        const calls = found.find((x) => x?.count)?.count;
        const row = element("tr", {class: "inside", hidden: ""}, element("td", {}, calls ? `${name}, ${countText(calls)} calls` : name), ...cells(found.map((x) => x?.seconds)));
        return [row, ...this.shapeRows(name, found, cells)];
      });
      table.append(...rows);
      this.inside.set(key, {button, rows});
      button.addEventListener("click", () => this.open(key));
    }
    return element("div", {class: "wrap"}, table);
  }

  // Of one kernel, a row for each shape that any run called it with.
  shapeRows(name, found, cells) {
    const shapes = new Set(found.flatMap((x) => x?.shapes?.map((s) => s.shape) ?? []));
    return [...shapes].map((shape) => {
      const of = found.map((x) => x?.shapes?.find((s) => s.shape === shape)), seconds = of.map((s, i) => s && s.seconds * found[i].seconds);
      const i = of.findIndex(Boolean), calls = of[i].calls * found[i].count;
      const text = `${shape}: ${countText(Math.round(calls))} calls${rateOf(name, shape, calls, seconds[i])}`;
      return element("tr", {class: "inside shape", hidden: ""}, element("td", {}, text), ...cells(seconds));
    });
  }

  open(key) {
    const {button, rows} = this.inside.get(key);
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    for (const row of rows) row.hidden = !open;
  }
}
