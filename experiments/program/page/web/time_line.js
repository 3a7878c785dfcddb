"use strict";
// The time line: for each run its ranks, for each rank its streams, a lane each. Predicted stands above measured, on one
// axis. What is too short to be seen is drawn as one box, as full as its spans are busy, in the colour of the class that
// takes most of it; so a million spans cost as much as there are pixels.

const LANE = 18, RANK = 20, RUN = 24, SHORT = 1.2;  // pixels

const sums = new Float64Array(16);  // by class; of one pixel

// The first index in [from, until) whose value is `value` or more, found by steps that double: it is near.
function firstFrom(values, value, from, until) {
  let step = 1, low = from, high = from;
  while (high < until && values[high] < value) low = high + 1, high += step, step *= 2;
  return d3.bisectLeft(values, value, low, Math.min(high, until));
}

// An image of one line for each lane, a pixel wide and high, that is stretched when it is drawn.
class Raster {
  constructor(width, lines) {
    this.width = Math.max(1, Math.floor(width)), this.lines = Math.max(1, lines);
    this.image = new ImageData(this.width, this.lines);
    this.pixels = new Uint32Array(this.image.data.buffer);  // alpha, blue, green, red from the highest byte down
    this.used = new Uint8Array(this.lines);
    this.colours = Object.values(CLASS_COLOURS).map((name) => {
      const rgb = theme.numbers.get(name);
      return (rgb & 0xff) << 16 | rgb & 0xff00 | rgb >> 16;
    });
  }

  set(x, line, which, alpha) {
    if (x >= this.width) return;
    this.pixels[line * this.width + x] = Math.round(255 * alpha) << 24 | this.colours[which];
    this.used[line] = 1;
  }

  close() {
    this.canvas = new OffscreenCanvas(this.width, this.lines);
    this.canvas.getContext("2d").putImageData(this.image, 0, 0);
  }
}

class TimeLine {
  constructor(root, runs, shared) {
    this.runs = runs.filter((run) => run.lanes.length > 0);
    this.shared = shared, this.found = null, this.arrows = true;
    this.chosen = new Map(this.runs.map((run) => [run, new Set(firstOfStages(run))]));
    this.controls(root);
    this.frame = element("div", {class: "scroll"}), this.space = element("div");
    this.frame.append(this.space), root.append(this.frame);
    this.view = new TimeCanvas(this.space, shared, "Time line of streams. Keys: w and s zoom, a and d move, 0 shows all, / searches.");
    this.view.hovered = (event) => this.hover(event);
    this.view.clicked = (event) => this.click(event);
    this.words = element("p", {class: "words", id: "words", "aria-live": "polite"});
    this.path_words = element("p", {class: "words", id: "path-words", hidden: ""});
    root.append(this.words, this.path_words, this.legend());
    tableOnDemand(root, "Table: what takes longest in the stretch that is shown", ["rank", "stream", "span", "calls", "seconds"], () => this.longest());
    this.layOut();
    shared.changed(() => this.draw());
  }

  // ---- Controls ----
  controls(root) {
    const bar = element("div", {class: "bar"});
    const button = (text, title, action) => {
      const made = element("button", {type: "button", title}, text);
      made.addEventListener("click", action);
      bar.append(made);
      return made;
    };
    const middle = () => (this.shared.from + this.shared.to) / 2;
    button("+", "zoom in (w)", () => this.shared.zoom(0.5, middle())).id = "zoom-in";
    button("−", "zoom out (s)", () => this.shared.zoom(2, middle())).id = "zoom-out";
    button("all", "show all (0)", () => this.shared.show(0, this.shared.end)).id = "zoom-all";
    this.search = element("input", {type: "search", id: "search", placeholder: "find a span (/)", "aria-label": "find a span by name, label or stream"});
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    });
    this.count = element("span", {class: "sub", id: "found"});
    bar.append(this.search);
    button("‹", "the match before (Shift+Enter)", () => this.step(-1));
    button("›", "the next match (Enter)", () => this.step(1)).id = "next";
    bar.append(this.count);
    this.runs.forEach((run, i) => bar.append(this.rankMenu(run, i)));
    const box = element("input", {type: "checkbox", id: "arrows", checked: ""});
    box.addEventListener("change", () => { this.arrows = box.checked, this.shared.set({}); });
    bar.append(element("label", {}, box, " arrows"));
    const path = element("input", {type: "checkbox", id: "critical"});
    path.addEventListener("change", () => { this.showPaths(path.checked); });
    bar.append(element("label", {title: "the chain of spans that made the traced steps as long as they are"}, path, " critical path"));
    root.append(bar);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
      this.search.focus(), this.search.select(), event.preventDefault();
    });
  }

  rankMenu(run, i) {
    const chosen = this.chosen.get(run), details = element("details", {class: "menu", id: "ranks-" + i});
    const summary = element("summary"), list = element("div", {class: "choices"});
    const say = () => summary.replaceChildren(`ranks of ${run.title}: ${chosen.size} of ${run.ranks.length} drawn`);
    const boxes = run.ranks.map((rank) => {
      const box = element("input", {type: "checkbox", value: rank.rank});
      box.checked = chosen.has(rank.rank);
      box.addEventListener("change", () => {
        box.checked ? chosen.add(rank.rank) : chosen.delete(rank.rank);
        say(), this.layOut(), this.shared.set({});
      });
      list.append(element("label", {}, box, " " + rank.name));
      return box;
    });
    const all = element("button", {type: "button"}, "all");
    all.addEventListener("click", () => {
      const some = chosen.size < run.ranks.length;
      boxes.forEach((box, k) => { box.checked = some || k === 0; });
      chosen.clear();
      run.ranks.forEach((rank, k) => { if (boxes[k].checked) chosen.add(rank.rank); });
      say(), this.layOut(), this.shared.set({});
    });
    list.prepend(all);
    details.append(summary, list), say();
    return details;
  }

  legend() {
    const used = new Set(this.runs.flatMap((run) => [...run.class_of].map((c) => run.class_names[c])));
    const entries = Object.keys(CLASS_NAMES).filter((c) => used.has(c)).map((c) =>
      element("span", {}, element("i", {style: `background:var(--${CLASS_COLOURS[c]})`}), CLASS_NAMES[c]));
    entries.push(element("span", {}, element("i", {class: "pale"}), "pale: waiting for other ranks, at the start of a communication"));
    return element("p", {class: "legend"}, ...entries);
  }

  // ---- Lanes ----
  layOut() {
    this.rows = [], this.lanesOf = new Map();
    let y = AXIS + 4;
    for (const run of this.runs) {
      this.rows.push({y, height: RUN, run}), y += RUN;
      for (const rank of run.ranks) {
        if (!this.chosen.get(run).has(rank.rank)) continue;
        this.rows.push({y, height: RANK, rank}), y += RANK;
        for (const lane of run.lanes) {
          if (lane.rank !== rank.rank) continue;
          const row = {y, height: LANE, lane};
          this.rows.push(row), this.lanesOf.set(lane, row), y += LANE;
        }
      }
    }
    this.height = y + 4;
  }

  // The canvas is as high as what is seen, and stays there while the lanes scroll below the axis.
  draw() {
    this.say();
    if (this.view.unseen) return;
    const top = this.frame.scrollTop, seen_height = Math.min(this.height, Math.round(window.innerHeight * 0.7));
    this.space.style.height = this.height + "px";
    const context = this.view.begin(seen_height);
    this.view.axis(context);
    context.save();
    context.beginPath(), context.rect(0, AXIS, this.view.width, seen_height - AXIS), context.clip();
    context.translate(0, -top);
    const seen = this.rows.filter((row) => row.y <= top + seen_height && row.y + row.height >= top), lanes = seen.filter((row) => row.lane);
    const raster = new Raster(this.view.width - 8 - GUTTER, lanes.length);
    const long = lanes.map((row, k) => this.rasterise(row.lane, raster, k));
    raster.close();
    lanes.forEach((row, k) => this.drawLane(context, row, raster, k, long[k]));
    for (const row of seen) {
      if (row.run) this.drawHead(context, row, row.run.title, "600 13px", 4);
      else if (row.rank) this.drawHead(context, row, row.rank.name, "600 12px", 12);
    }
    if (this.arrows) this.drawArrows(context);
    if (this.paths) this.drawPaths(context);
    this.drawChosen(context);
    context.restore();
    this.view.cursor(context);
  }

  drawHead(context, row, text, font, x) {
    context.font = font + " system-ui, 'DejaVu Sans', sans-serif";
    context.fillStyle = theme.colour("ink"), context.textAlign = "left";
    context.fillText(text, x, row.y + row.height / 2);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  }

  // Puts what is too short to be seen into a line of the raster. Returns the indices of the other spans.
  rasterise(lane, raster, line) {
    const seconds = (this.shared.to - this.shared.from) / raster.width;  // of a pixel
    const match = this.found?.byLane.get(lane), long = [];
    let i = Math.max(0, d3.bisectRight(lane.start, this.shared.from) - 1);
    while (i < lane.count && lane.start[i] < this.shared.to) {
      if (lane.end[i] - lane.start[i] >= SHORT * seconds) {
        if (lane.end[i] > this.shared.from) long.push(i);
        ++i;
        continue;
      }
      const pixel = Math.floor((lane.start[i] - this.shared.from) / seconds);
      const until = firstFrom(lane.start, this.shared.from + (pixel + 1) * seconds, i + 1, lane.count);
      if (pixel >= 0) {
        const full = Math.min(1, (lane.busy[until] - lane.busy[i]) * 1e-9 / seconds);
        const faint = match && !match.between(i, until) ? 0.25 : 1;
        raster.set(pixel, line, this.classOf(lane, i, until), faint * (0.25 + 0.75 * full));
      }
      // A longer span that begins in this pixel is drawn as a box beside it.
      for (let k = until - 1; k > i && k > until - 3; --k)
        if (lane.end[k] - lane.start[k] >= SHORT * seconds) long.push(k);
      i = until;
    }
    return long;
  }

  drawLane(context, row, raster, line, long) {
    const {lane, y} = row, x = this.view.scale, right = this.view.width - 8, match = this.found?.byLane.get(lane);
    context.fillStyle = theme.colour("panel");
    context.fillRect(GUTTER, y + 1, right - GUTTER, LANE - 3);
    context.imageSmoothingEnabled = false;
    if (raster.used[line]) context.drawImage(raster.canvas, 0, line, raster.width, 1, GUTTER, y + 1, raster.width, LANE - 3);
    for (const i of long) this.drawSpan(context, lane, i, y, x(lane.start[i]), x(lane.end[i]) - x(lane.start[i]), match);
    context.fillStyle = theme.colour("page");
    context.fillRect(0, y, GUTTER - 2, LANE);
    context.fillStyle = theme.colour("soft"), context.textAlign = "left";
    context.fillText(fitted(context, lane.stream.replace(/^communication /, ""), GUTTER - 26), 20, y + LANE / 2);
  }

  // The number of the class that takes most of spans [from, until); of many, to the next block of them.
  classOf(lane, from, until) {
    if (until - from === 1) return lane.run.class_of[lane.name[from]];
    const n = lane.run.class_names.length;
    sums.fill(0);
    if (until - from > BLOCK) {
      const last = Math.floor((until - 1) / BLOCK);
      for (let block = Math.floor(from / BLOCK); block <= last; ++block)
        for (let c = 0; c < n; ++c) sums[c] += lane.blocks[block * n + c];
    } else {
      for (let i = from; i < until; ++i) sums[lane.run.class_of[lane.name[i]]] += lane.end[i] - lane.start[i];
    }
    let most = 0;
    for (let c = 1; c < n; ++c) if (sums[c] > sums[most]) most = c;
    return most;
  }

  drawSpan(context, lane, i, y, left, width, match) {
    const from = Math.max(GUTTER, left), to = Math.min(this.view.width - 8, left + width);
    if (to <= from) return;
    const waits = Math.min(to, left + width * Math.min(1, lane.waiting[i] * 1e-9 / (lane.end[i] - lane.start[i])));
    context.fillStyle = theme.colour(CLASS_COLOURS[lane.run.class_names[lane.run.class_of[lane.name[i]]]]);
    const alpha = match && !match.has(i) ? 0.25 : 1, gap = width > 3 ? 0.5 : 0;
    if (waits > from) context.globalAlpha = 0.3 * alpha, context.fillRect(from, y + 1, waits - from, LANE - 3);
    context.globalAlpha = alpha;
    context.fillRect(Math.max(from, waits), y + 1, Math.max(0, to - Math.max(from, waits) - gap), LANE - 3);
    context.globalAlpha = 1;
    if (to - from < 40) return;
    context.fillStyle = theme.colour("page"), context.textAlign = "left";
    const text = fitted(context, this.nameOf(lane, i), to - Math.max(from, waits) - 8);
    if (text.length > 2) context.fillText(text, Math.max(from, waits) + 4, y + LANE / 2);
  }

  nameOf(lane, i) {
    const label = lane.run.labels[lane.label[i]];
    return label ? `${lane.run.names[lane.name[i]]} ${label}` : lane.run.names[lane.name[i]];
  }

  drawChosen(context) {
    const chosen = this.shared.chosen, row = chosen && this.lanesOf.get(chosen.lane);
    if (!row) return;
    const x = this.view.scale, left = Math.max(GUTTER, x(chosen.lane.start[chosen.index])), right = Math.min(this.view.width - 8, x(chosen.lane.end[chosen.index]));
    if (right < left) return;
    context.strokeStyle = theme.colour("ink"), context.lineWidth = 2;
    context.strokeRect(left - 1, row.y, Math.max(2, right - left + 2), LANE - 1);
  }

  // ---- Who waits for whom ----
  // From a message's send to its receive, and in a collective from the rank that came last to those that waited for it.
  drawArrows(context) {
    context.strokeStyle = context.fillStyle = theme.colour("ink");
    context.lineWidth = 1, context.globalAlpha = 0.55;
    for (const arrow of arrowsIn(this.lanesOf, this.shared.from, this.shared.to, 400)) {
      const from = this.lanesOf.get(arrow.from.lane), to = this.lanesOf.get(arrow.to.lane);
      const x0 = this.view.scale(arrow.start), x1 = this.view.scale(arrow.end);
      if (Math.max(x0, x1) < GUTTER) continue;
      const y0 = from.y + LANE / 2, y1 = to.y + LANE / 2, bend = Math.max(12, Math.abs(x1 - x0) / 2);
      context.beginPath(), context.moveTo(x0, y0), context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1), context.stroke();
      context.beginPath(), context.moveTo(x1, y1), context.lineTo(x1 - 6, y1 - 3), context.lineTo(x1 - 6, y1 + 3), context.fill();
    }
    context.globalAlpha = 1;
  }

  // ---- The critical path ----
  showPaths(shown) {
    this.all_paths ??= this.runs.map((run) => new CriticalPath(run));
    this.paths = shown ? this.all_paths : null;
    this.path_words.hidden = !shown;
    if (shown) {
      this.path_words.replaceChildren(...this.paths.map((path) => {
        const shares = [...path.shares()].sort((a, b) => b[1] - a[1]), all = d3.sum(shares, (s) => s[1]);
        return element("div", {}, `critical path of ${path.run.title}, ${secondsText(all)}: ` +
          shares.map(([name, seconds]) => `${CLASS_NAMES[name] ?? "nothing that was traced"} ${shareText(seconds / all)}`).join(", "));
      }));
    }
    this.shared.set({});
  }

  // A line below each span of it, among the lanes that are drawn.
  drawPaths(context) {
    const right = this.view.width - 8;
    context.fillStyle = theme.colour("ink");
    for (const path of this.paths) {
      let last = null, from = 0, to = 0;
      for (const {lane, index} of path.spans) {
        const row = this.lanesOf.get(lane);
        if (!row || lane.end[index] < this.shared.from || lane.start[index] > this.shared.to) continue;
        const x0 = Math.max(GUTTER, this.view.scale(lane.start[index])), x1 = Math.min(right, this.view.scale(lane.end[index]));
        if (row === last && x0 <= to + 1) {
          to = Math.max(to, x1);
          continue;
        }
        if (last) context.fillRect(from, last.y + LANE - 4, Math.max(1, to - from), 3);
        last = row, from = x0, to = x1;
      }
      if (last) context.fillRect(from, last.y + LANE - 4, Math.max(1, to - from), 3);
    }
  }

  // ---- Words ----
  spanAt(event) {
    const box = this.view.canvas.getBoundingClientRect(), y = event.clientY - box.top + this.frame.scrollTop;
    const row = this.rows.find((r) => r.lane && y >= r.y && y < r.y + LANE);
    if (!row) return null;
    const t = this.view.timeAt(event), slack = 2 * (this.shared.to - this.shared.from) / this.view.width;
    const i = d3.bisectRight(row.lane.start, t + slack) - 1;
    return i >= 0 && row.lane.end[i] >= t - slack ? {lane: row.lane, index: i} : null;
  }

  hover(event) {
    const span = this.spanAt(event);
    span ? tip.show(event, describe(span)) : tip.hide();
  }

  click(event) {
    this.view.canvas.focus();
    this.shared.set({chosen: this.spanAt(event)});
  }

  say() {
    const t = this.shared.cursor, lines = [];
    if (this.shared.chosen) lines.push("chosen: " + describe(this.shared.chosen).join(", "));
    if (t !== null) {
      for (const run of this.runs) {
        for (const rank of run.ranks.filter((r) => this.chosen.get(run).has(r.rank)).slice(0, 2))
          lines.push(`${run.title}, ${rank.name}, at ${secondsText(t)}: ${whatComputeDoes(run, rank.rank, t)}`);
      }
    }
    if (lines.join("\n") === this.said) return;
    this.said = lines.join("\n");
    this.words.replaceChildren(...lines.map((line) => element("div", {}, line)));
  }

  // ---- Search ----
  find() {
    const text = this.search.value.trim().toLowerCase();
    this.found = null, this.count.textContent = "";
    if (text) {
      const byLane = new Map(), all = [];
      for (const lane of this.lanesOf.keys()) {
        const names = new Set(lane.run.names.flatMap((name, k) => name.toLowerCase().includes(text) ? [k] : []));
        const labels = new Set(lane.run.labels.flatMap((label, k) => label.toLowerCase() === text ? [k] : []));
        const stream = lane.stream.toLowerCase().includes(text), hits = [];
        for (let i = 0; i < lane.count; ++i) {
          if (stream || names.has(lane.name[i]) || labels.has(lane.label[i])) hits.push(i);
        }
        byLane.set(lane, {has: (i) => hits[d3.bisectLeft(hits, i)] === i, between: (a, b) => d3.bisectLeft(hits, a) < d3.bisectLeft(hits, b)});
        for (const i of hits) all.push({lane, index: i});
      }
      all.sort((a, b) => a.lane.start[a.index] - b.lane.start[b.index]);
      this.found = {byLane, all, at: -1};
      this.count.textContent = `${countText(all.length)} found`;
    }
    this.shared.set({});
  }

  step(by) {
    if (!this.found || this.found.all.length === 0) return;
    const n = this.found.all.length;
    this.found.at = this.found.at < 0 ? (by > 0 ? 0 : n - 1) : (this.found.at + by + n) % n;
    const span = this.found.all[this.found.at], start = span.lane.start[span.index], end = span.lane.end[span.index];
    this.count.textContent = `${countText(this.found.at + 1)} of ${countText(n)}`;
    this.shared.set({chosen: span});
    if (start < this.shared.from || end > this.shared.to) {
      const width = Math.max(this.shared.to - this.shared.from, 1.5 * (end - start));
      this.shared.show((start + end - width) / 2, (start + end + width) / 2);
    }
  }

  longest() {
    const sums = new Map();
    for (const lane of this.lanesOf.keys()) {
      let i = Math.max(0, d3.bisectRight(lane.start, this.shared.from) - 1);
      for (; i < lane.count && lane.start[i] < this.shared.to; ++i) {
        const seconds = Math.min(lane.end[i], this.shared.to) - Math.max(lane.start[i], this.shared.from);
        if (seconds <= 0) continue;
        const key = `${lane.run.title}|${lane.rank}|${lane.stream}|${lane.run.names[lane.name[i]]}`;
        const sum = sums.get(key) ?? {row: [`${lane.rank} (${lane.run.title})`, lane.stream, lane.run.names[lane.name[i]]], calls: 0, seconds: 0};
        ++sum.calls, sum.seconds += seconds;
        sums.set(key, sum);
      }
    }
    return [...sums.values()].sort((a, b) => b.seconds - a.seconds).slice(0, 40).map((s) => [...s.row, countText(s.calls), secondsText(s.seconds)]);
  }
}

// The first rank of each pipeline stage, at most four; where stages are not known, the first two ranks.
function firstOfStages(run) {
  const placed = run.ranks.filter((rank) => rank.place);
  if (placed.length === 0 || run.stages < 2) return run.ranks.slice(0, 2).map((rank) => rank.rank);
  const firsts = d3.group(placed, (rank) => rank.place.pp);
  return [...firsts.keys()].sort(d3.ascending).slice(0, 4).map((stage) => firsts.get(stage)[0].rank);
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = Math.max(0, Math.floor(text.length * width / context.measureText(text).width) - 1);
  return letters < 2 ? "" : text.slice(0, letters) + "…";
}

function describe({lane, index}) {
  const lines = [lane.run.names[lane.name[index]], secondsText(lane.end[index] - lane.start[index])];
  lines.push(`from ${secondsText(lane.start[index])} to ${secondsText(lane.end[index])}`);
  lines.push(`${lane.run.rankOf.get(lane.rank)?.name ?? "rank " + lane.rank}, ${lane.stream}`);
  const label = lane.run.labels[lane.label[index]];
  if (label) lines.push("part of " + actionText(label));
  const shape = lane.run.shapes[lane.shape[index]];
  if (shape) lines.push(shape);
  if (lane.bytes[index] > 0) lines.push(bytesText(lane.bytes[index]));
  if (lane.waiting[index] > 0) lines.push(`of it waiting for other ranks: ${secondsText(lane.waiting[index] * 1e-9)}`);
  if (lane.exposed[index] > 0) lines.push(`the compute stream stood still for it: ${secondsText(lane.exposed[index] * 1e-9)}`);
  return lines;
}

// "B3.1" is the backward pass of micro-batch 3 through chunk 1.
function actionText(label) {
  const parts = /^([FBIWR])(\d+)(?:\.(\d+))?$/.exec(label);
  if (!parts) return label;
  const pass = {F: "forward", B: "backward", I: "backward for inputs", W: "backward for weights", R: "recomputed forward"}[parts[1]];
  return `${label}: ${pass}, micro-batch ${parts[2]}` + (parts[3] ? `, chunk ${parts[3]}` : "");
}

// What the compute stream of a rank does at time t, in words.
function whatComputeDoes(run, rank, t) {
  const lanes = run.lanes.filter((lane) => lane.rank === rank);
  const at = (lane) => {
    const i = d3.bisectRight(lane.start, t) - 1;
    return i >= 0 && lane.end[i] > t ? i : -1;
  };
  const compute = lanes.find((lane) => lane.stream === "compute");
  const own = compute ? at(compute) : -1;
  if (own >= 0) return "computes " + compute.run.names[compute.name[own]];
  for (const lane of lanes) {
    const i = lane === compute ? -1 : at(lane);
    if (i < 0) continue;
    const what = `${run.names[lane.name[i]]} on ${lane.stream} (${bytesText(lane.bytes[i])})`;
    if (lane.exposed[i] <= 0) continue;
    return t < lane.start[i] + lane.waiting[i] * 1e-9 ? `waits until other ranks come to ${what}` : `waits for ${what}`;
  }
  const busy = lanes.filter((lane) => lane !== compute && at(lane) >= 0).map((lane) => lane.stream);
  return busy.length > 0 ? `computes nothing, while ${busy.join(" and ")} work${busy.length === 1 ? "s" : ""}` : "computes nothing: the host launches operations, or the step has ended";
}
