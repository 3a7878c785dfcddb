"use strict";
// The rows of a study: what was predicted over what was measured, a dot a row, in the colour of its role.

const ROLES = {validation: "blue", development: "orange", calibration: "grey", none: "purple"};

class StudyView {
  constructor(root, data) {
    this.data = data, this.kept = null;
    this.rows = data.rows.filter((row) => row.predicted > 0 && row.measured > 0);
    this.units = [...d3.group(this.rows, (row) => row.unit ?? "")].sort((a, b) => b[1].length - a[1].length).map(([unit]) => unit);
    this.unit = this.select("unit", this.units.map((unit) => [unit, unit || "no unit"]));
    this.figure = this.select("figure", [["predicted", "predicted over measured"], ["ratio", "predicted / measured over measured"]]);
    root.append(element("div", {class: "bar"}, element("label", {}, "unit: ", this.unit), element("label", {}, "picture: ", this.figure)));
    this.hidden = filterMenus(root, data.choices, this.rows, () => this.choose());
    this.frame = element("div"), root.append(this.frame);
    this.canvas = element("canvas", {role: "img", "aria-label": "Predictions over measurements. The table below has the figures."});
    this.frame.append(this.canvas);
    const roles = Object.keys(ROLES).filter((role) => this.rows.some((row) => row.role === role));
    this.said = element("p", {class: "words", id: "study-words", "aria-live": "polite"}), this.told = element("p", {class: "words", id: "study-row"});
    root.append(element("p", {class: "legend"}, ...roles.map((role) => element("span", {}, element("i", {style: `background:var(--${ROLES[role]})`}), role)),
                        element("span", {}, "the line: as measured; the band: within 10 %")), this.said, this.told);
    tableOnDemand(root, "Table: the 100 rows that are shown with the largest errors", ["row", ...data.choices.slice(0, 3), "measured", "predicted", "error"], () =>
      [...this.shown].sort((a, b) => Math.abs(errorOf(b)) - Math.abs(errorOf(a))).slice(0, 100).map((row) =>
        [row.name, ...data.choices.slice(0, 3).map((name) => row[name] ?? ""), this.text(row.measured), this.text(row.predicted), signedShare(errorOf(row))]));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    this.canvas.addEventListener("click", (event) => this.keep(event));
    this.choose();
  }

  select(id, options) {
    const select = element("select", {id: "study-" + id});
    for (const [value, name] of options) select.append(element("option", {value}, name));
    select.addEventListener("change", () => this.choose());
    return select;
  }

  text(value) { return `${Number(value.toPrecision(5))} ${this.unit.value}`.trim(); }
  height(row) { return this.figure.value === "ratio" ? row.predicted / row.measured : row.predicted; }

  choose() {
    this.shown = this.rows.filter((row) => (row.unit ?? "") === this.unit.value && isLeft(row, this.hidden));
    const errors = this.shown.map((row) => Math.abs(errorOf(row))).sort(d3.ascending);
    const stated = this.shown.filter((row) => typeof row.low === "number" && typeof row.high === "number");
    const inside = stated.filter((row) => row.low <= row.measured && row.measured <= row.high).length;
    this.said.textContent = `${countText(this.shown.length)} of ${countText(this.rows.length)} rows are shown.` + (errors.length === 0 ? "" :
      ` Absolute errors: median ${shareText(d3.quantile(errors, 0.5))}, nine tenths are at most ${shareText(d3.quantile(errors, 0.9))}, largest ${shareText(errors[errors.length - 1])};` +
      ` median of signed errors ${signedShare(d3.median(this.shown, errorOf))}.` + (stated.length > 0 ? ` Of ${countText(stated.length)} stated intervals ${shareText(inside / stated.length)} hold the measurement.` : ""));
    this.draw();
  }

  draw() {
    const width = this.frame.clientWidth, height = PLOT.height, context = emptyCanvas(this.canvas, width, height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif", context.textBaseline = "middle";
    if (this.shown.length === 0) return;
    const [least, most] = d3.extent(this.shown, (row) => row.measured), heights = d3.extent(this.shown, (row) => this.height(row));
    this.x = d3.scaleLog([least / 1.1, most * 1.1], [PLOT.left, width - PLOT.right]);
    this.y = d3.scaleLog([heights[0] / 1.1, heights[1] * 1.1], [height - PLOT.bottom, PLOT.top]);
    this.axes(context, width, height);
    context.globalAlpha = 0.65;
    for (const row of this.shown) {
      context.fillStyle = theme.colour(ROLES[row.role] ?? "teal");
      context.beginPath(), context.arc(this.x(row.measured), this.y(this.height(row)), 2.5, 0, 7), context.fill();
    }
    context.globalAlpha = 1;
    if (!this.shown.includes(this.kept)) return;
    context.strokeStyle = theme.colour("ink"), context.beginPath();
    context.arc(this.x(this.kept.measured), this.y(this.height(this.kept)), 6, 0, 7), context.stroke();
  }

  axes(context, width, height) {
    const ratio = this.figure.value === "ratio", [from, to] = this.x.domain();
    const line = (factor) => {
      context.beginPath();
      for (const x of [from, to]) context.lineTo(this.x(x), this.y(factor * (ratio ? 1 : x)));
    };
    context.save(), context.beginPath(), context.rect(PLOT.left, PLOT.top, width - PLOT.left - PLOT.right, height - PLOT.top - PLOT.bottom), context.clip();
    context.strokeStyle = theme.colour("ink"), context.lineWidth = 1, line(1), context.stroke();
    context.strokeStyle = theme.colour("green"), context.setLineDash([4, 3]), line(0.9), context.stroke(), line(1.1), context.stroke();
    context.restore();
    context.fillStyle = theme.colour("soft"), context.strokeStyle = theme.colour("rule"), context.textAlign = "center";
    for (const tick of logTicks(this.x)) {
      context.beginPath(), context.moveTo(this.x(tick), height - PLOT.bottom), context.lineTo(this.x(tick), height - PLOT.bottom + 4), context.stroke();
      context.fillText(d3.format(".3~g")(tick), this.x(tick), height - PLOT.bottom + 14);
    }
    context.fillText(`measured${this.unit.value && ", " + this.unit.value}`, (PLOT.left + width) / 2, height - 10);
    context.textAlign = "right";
    for (const tick of logTicks(this.y)) {
      context.beginPath(), context.moveTo(PLOT.left - 4, this.y(tick)), context.lineTo(width - PLOT.right, this.y(tick)), context.stroke();
      context.fillText(d3.format(".3~g")(tick), PLOT.left - 8, this.y(tick));
    }
  }

  nearest(event) {
    if (this.shown.length === 0) return null;
    const box = this.canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const distance = (row) => Math.hypot(this.x(row.measured) - px, this.y(this.height(row)) - py);
    const row = d3.least(this.shown, (a, b) => distance(a) - distance(b));
    return distance(row) <= 12 ? row : null;
  }

  lines(row) {
    const interval = typeof row.low === "number" && typeof row.high === "number" ? `, between ${this.text(row.low)} and ${this.text(row.high)}` : "";
    return [row.name, this.data.choices.map((name) => row[name]).filter((value) => value !== undefined && value !== null && value !== "").join(", "),
            `measured ${this.text(row.measured)}, predicted ${this.text(row.predicted)}${interval}: ${signedShare(errorOf(row))}`];
  }

  hover(event) {
    const row = this.nearest(event);
    row ? tip.show(event, this.lines(row)) : tip.hide();
  }

  // Keeps a row, with the command that computes it.
  keep(event) {
    this.kept = this.nearest(event);
    this.told.replaceChildren();
    if (this.kept) this.told.append(this.lines(this.kept).join("; ") + ". ", element("code", {}, (this.data.row_command ?? this.data.command).replace("{name}", this.kept.name)));
    this.draw();
  }
}

const errorOf = (row) => row.predicted / row.measured - 1;
const signedShare = (v) => (v > 0 ? "+" : "") + shareText(v);

// Powers of ten, with 2 and 5 between where there are few.
function logTicks(scale) {
  const [from, to] = scale.domain(), steps = Math.log10(to / from) < 3 ? [1, 2, 5] : [1];
  return d3.range(Math.floor(Math.log10(from)), Math.ceil(Math.log10(to)) + 1).flatMap((e) => steps.map((s) => s * 10 ** e)).filter((t) => t >= from && t <= to);
}
