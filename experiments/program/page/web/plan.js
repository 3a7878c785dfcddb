"use strict";
// A plan: every legal layout is a dot of step time over memory. Filters leave out layouts by their choices.

const FATES = {
  simulated: {colour: "blue", name: "simulated", radius: 4, alpha: 1},
  open: {colour: "orange", name: "left open: the budget ended", radius: 2.5, alpha: 0.8},
  slower: {colour: "grey", name: "cannot be the fastest (lower bounds)", radius: 2, alpha: 0.4},
  "does not fit": {colour: "red", name: "does not fit (lower bounds)", radius: 2, alpha: 0.35},
};
const PLOT = {left: 84, right: 16, top: 12, bottom: 44, height: 480};

// "≈": extended from steps of fewer micro-batches, or simulated with one rank for several that are not quite alike.
const isNear = (layout) => layout.extended === "true" || Number(layout.folding_adds) > 0;
const stepText = (layout) => (isNear(layout) ? "≈ " : "") + secondsText(layout.time);

class PlanView {
  constructor(root, data) {
    this.data = data, this.near = null;
    this.layouts = data.layouts.map((row) => Object.fromEntries(data.columns.map((name, i) => [name, row[i]])));
    for (const layout of this.layouts) {
      layout.time = layout.seconds ?? layout.least_seconds;
      layout.memory = layout.seconds === null ? layout.least_bytes : layout.bytes;
    }
    this.hidden = filterMenus(root, [...data.choices, "fate"], this.layouts, () => this.choose());
    this.frame = element("div"), root.append(this.frame);
    this.canvas = element("canvas", {role: "img", "aria-label": "Layouts by memory and step time. The tables have the figures."});
    this.frame.append(this.canvas);
    this.said = element("p", {class: "words", id: "plan-words", "aria-live": "polite"});
    root.append(element("p", {class: "legend"}, ...Object.values(FATES).map((fate) => element("span", {}, element("i", {style: `background:var(--${fate.colour})`}), fate.name))), this.said);
    tableOnDemand(root, "Table: the 100 first of the layouts that are shown", ["layout", "fate", "step time", "memory"], () =>
      this.shown.slice(0, 100).map((l) => [l.layout, l.fate, (l.seconds === null ? "≥ " : "") + stepText(l), (l.seconds === null ? "≥ " : "") + bytesText(l.memory)]));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    this.choose();
  }

  choose() {
    this.shown = this.layouts.filter((l) => isLeft(l, this.hidden));
    this.said.textContent = `${countText(this.shown.length)} of ${countText(this.layouts.length)} layouts are shown.` +
      (this.shown.length > 0 && this.shown[0].seconds !== null ? ` The fastest of them: ${this.shown[0].layout}, ${stepText(this.shown[0])}.` : "");
    this.draw();
  }

  draw() {
    const width = this.frame.clientWidth, height = PLOT.height, context = emptyCanvas(this.canvas, width, height);
    const memories = this.layouts.map((l) => l.memory), times = this.layouts.map((l) => l.time);
    this.x = d3.scaleLinear([0, Math.min(d3.max(memories), 2.5 * (this.data.device_bytes || Infinity))], [PLOT.left, width - PLOT.right]).clamp(true);
    this.y = d3.scaleLog([d3.min(times) * 0.95, d3.max(times) * 1.05], [height - PLOT.bottom, PLOT.top]);
    this.axes(context, width, height);
    for (const fate of ["does not fit", "slower", "open", "simulated"]) {
      const {colour, radius, alpha} = FATES[fate];
      context.fillStyle = theme.colour(colour), context.globalAlpha = alpha;
      context.beginPath();
      for (const l of this.shown) {
        if (l.fate !== fate) continue;
        const at = this.y(l.time), x = this.x(l.memory);
        context.moveTo(x + radius, at), context.arc(x, at, radius, 0, 7);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    this.front(context);
  }

  axes(context, width, height) {
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif", context.textBaseline = "middle";
    context.strokeStyle = theme.colour("rule"), context.fillStyle = theme.colour("soft"), context.textAlign = "center";
    for (const tick of byteTicks(this.x.domain()[1])) {
      const x = Math.round(this.x(tick)) + 0.5;
      context.beginPath(), context.moveTo(x, PLOT.top), context.lineTo(x, height - PLOT.bottom), context.stroke();
      context.fillText(bytesText(tick), x, height - PLOT.bottom + 14);
    }
    context.fillText("memory of the fullest rank", (PLOT.left + width) / 2, height - 10);
    context.textAlign = "right";
    for (const tick of this.y.ticks(6)) {
      const y = Math.round(this.y(tick)) + 0.5;
      context.beginPath(), context.moveTo(PLOT.left, y), context.lineTo(width - PLOT.right, y), context.stroke();
      context.fillText(secondsText(tick), PLOT.left - 8, y);
    }
    if (!this.data.device_bytes) return;
    const limit = this.x(this.data.device_bytes);
    context.strokeStyle = theme.colour("ink"), context.setLineDash([5, 3]);
    context.beginPath(), context.moveTo(limit, PLOT.top), context.lineTo(limit, height - PLOT.bottom), context.stroke(), context.setLineDash([]);
    context.textAlign = "left", context.fillText("the device", limit + 5, PLOT.top + 8);
  }

  // Simulated layouts that no other one beats in both time and memory.
  pareto() {
    const best = [];
    for (const l of this.shown.filter((s) => s.fate === "simulated").sort((a, b) => a.time - b.time || a.memory - b.memory))
      if (best.length === 0 || l.memory < best[best.length - 1].memory) best.push(l);
    return best;
  }

  front(context) {
    context.strokeStyle = theme.colour("blue"), context.lineWidth = 1.5, context.beginPath();
    this.pareto().forEach((l, i) => i === 0 ? context.moveTo(this.x(l.memory), this.y(l.time)) : context.lineTo(this.x(l.memory), this.y(l.time)));
    context.stroke(), context.lineWidth = 1;
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const distance = (l) => Math.hypot(this.x(l.memory) - px, this.y(l.time) - py) - (l.fate === "simulated" ? 2 : 0);
    const nearest = d3.least(this.shown, distance);
    if (!nearest || distance(nearest) > 12) return tip.hide();
    const sure = nearest.seconds !== null;
    tip.show(event, [nearest.layout, FATES[nearest.fate].name, `${sure ? "" : "at least "}${stepText(nearest)} a step`,
                     `${sure ? "" : "at least "}${bytesText(nearest.memory)}`, sure ? `MFU ${shareText(nearest.mfu)}, exposed communication ${secondsText(nearest.exposed_seconds)}` : ""]);
  }
}
