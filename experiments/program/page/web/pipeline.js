"use strict";
// A pipeline: stage by time, with micro-batches. Of each stage, its first rank.

const STAGE = 22;  // pixels
const MOST_NUMBERS = 300;  // of micro-batches in one picture: text is slow
const PASS_COLOURS = {forward: "blue", backward: "green", input: "teal", weights: "purple", recompute: "cyan", other: "orange"};
const PASS_NAMES = {
  forward: "forward", backward: "backward", input: "backward for inputs", weights: "backward for weights", recompute: "recomputed forward",
  other: "update and the rest",
};

class PipelineView {
  constructor(root, runs, shared) {
    this.runs = runs.filter((run) => run.schedule.length > 0);
    this.shared = shared;
    const frame = element("div", {class: "scroll"});
    root.append(frame);
    this.view = new TimeCanvas(frame, shared, "Pipeline: what each stage does when. The table below has each stage's share.");
    this.view.hovered = (event) => this.hover(event);
    const used = new Set(this.runs.flatMap((run) => run.schedule.flatMap((row) => row.phases.map((p) => p[0]))));
    root.append(element("p", {class: "legend"}, ...Object.keys(PASS_NAMES).filter((p) => used.has(p)).map((p) =>
      element("span", {}, element("i", {style: `background:var(--${PASS_COLOURS[p]})`}), PASS_NAMES[p])),
      element("span", {}, element("i", {style: "background:var(--red)"}), "communication that the stage waits for")));
    tableOnDemand(root, "Table: each stage in the stretch that is shown", ["run", "stage", "in passes", "waits for communication", "most micro-batches in flight"],
                  () => this.shares());
    this.rows = [];
    let y = AXIS + 4;
    for (const run of this.runs) {
      this.rows.push({y, title: run.title}), y += RUN;
      for (const stage of run.schedule) this.rows.push({y, stage, run}), y += STAGE;
    }
    this.height = y + 4;
    shared.changed(() => this.draw());
  }

  draw() {
    if (this.view.unseen) return;
    const context = this.view.begin(this.height), x = this.view.scale, right = this.view.width - 8;
    this.view.axis(context);
    const passes = d3.sum(this.rows, (row) => row.stage ? this.seen(row.stage)[1] - this.seen(row.stage)[0] : 0);
    for (const row of this.rows) {
      context.textAlign = "left", context.fillStyle = theme.colour("ink");
      if (row.title) {
        context.fillText(row.title, 4, row.y + RUN / 2);
        continue;
      }
      context.fillStyle = theme.colour("rule"), context.fillRect(GUTTER, row.y + 1, right - GUTTER, STAGE - 3);
      const seconds = (this.shared.to - this.shared.from) / (right - GUTTER), [first, last] = this.seen(row.stage);
      for (let i = first; i < last;) {
        const [pass, micro, , start, end] = row.stage.phases[i];
        const from = Math.max(GUTTER, x(start)), to = Math.min(right, x(end));
        i = end - start < seconds / 2 ? firstFrom(row.stage.starts, start + seconds / 2, i + 1, last) : i + 1;
        if (to <= from) continue;
        context.fillStyle = theme.colour(PASS_COLOURS[pass]);
        context.fillRect(from, row.y + 1, Math.max(0.5, to - from - (to - from > 4 ? 1 : 0)), STAGE - 3);
        if (to - from < 14 || pass === "other" || passes > MOST_NUMBERS) continue;
        context.fillStyle = theme.colour("page"), context.textAlign = "center";
        context.fillText(String(micro), (from + to) / 2, row.y + STAGE / 2);
      }
      context.fillStyle = theme.colour("red");
      const {begin, end} = this.waits(row.stage);
      for (let i = d3.bisectLeft(end, this.shared.from); i < begin.length && begin[i] < this.shared.to;) {
        const from = Math.max(GUTTER, x(begin[i])), to = Math.min(right, x(end[i]));
        context.fillRect(from, row.y + STAGE - 6, Math.max(0.5, to - from), 4);
        i = firstFrom(end, end[i] + 0.5 * seconds, i + 1, begin.length);  // those within half a pixel are not told apart
      }
      context.fillStyle = theme.colour("page"), context.fillRect(0, row.y, GUTTER - 2, STAGE);
      context.fillStyle = theme.colour("soft"), context.textAlign = "left";
      context.fillText(fitted(context, row.stage.name, GUTTER - 20), 14, row.y + STAGE / 2);
    }
    this.view.cursor(context);
  }

  // The indices [first, last) of passes in the stretch that is shown. They do not overlap.
  seen(stage) {
    stage.starts ??= Float64Array.from(stage.phases, (phase) => phase[3]);
    return [Math.max(0, d3.bisectRight(stage.starts, this.shared.from) - 1), d3.bisectLeft(stage.starts, this.shared.to)];
  }

  // Stretches in which the stage waits for communication, by time.
  waits(stage) {
    if (!stage.waits) {
      const sorted = [...stage.communication].sort((a, b) => a[0] - b[0]);
      stage.waits = {begin: Float64Array.from(sorted, (s) => s[0]), end: Float64Array.from(sorted, (s) => s[1])};
    }
    return stage.waits;
  }

  hover(event) {
    const y = event.clientY - this.view.canvas.getBoundingClientRect().top, t = this.view.timeAt(event);
    const row = this.rows.find((r) => r.stage && y >= r.y && y < r.y + STAGE);
    if (!row) return tip.hide();
    const phase = row.stage.phases.find(([, , , start, end]) => start <= t && t < end);
    const flying = `${inFlight(row.stage, t)} micro-batches in flight (forward begun, backward not ended)`;
    if (!phase) return tip.show(event, [row.stage.name, "idle", flying]);
    const [pass, micro, chunk, start, end] = phase;
    tip.show(event, [row.stage.name, pass === "other" ? PASS_NAMES[pass] : `${PASS_NAMES[pass]}, micro-batch ${micro}` + (chunk ? `, chunk ${chunk}` : ""),
                     `${secondsText(end - start)}, from ${secondsText(start)}`, flying]);
  }

  shares() {
    const {from, to} = this.shared;
    const inside = (start, end) => Math.max(0, Math.min(end, to) - Math.max(start, from));
    return this.rows.filter((row) => row.stage).map(({run, stage}) => {
      const busy = d3.sum(stage.phases, (p) => p[0] === "other" ? 0 : inside(p[3], p[4]));
      const waits = d3.sum(stage.communication, ([start, end]) => inside(start, end));
      const most = d3.max(stage.phases.filter((p) => inside(p[3], p[4]) > 0), (p) => inFlight(stage, p[3])) ?? 0;
      return [run.title, stage.name, shareText(busy / (to - from)), secondsText(waits), most];
    });
  }
}

// Micro-batches (of each chunk) whose forward pass has begun and whose backward pass has not ended.
function inFlight(stage, t) {
  let count = 0;
  for (const [pass, , , start, end] of stage.phases) {
    if (pass === "forward" && start <= t) ++count;
    if ((pass === "backward" || pass === "input") && end <= t) --count;
  }
  return Math.max(0, count);
}
