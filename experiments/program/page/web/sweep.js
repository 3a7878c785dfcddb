"use strict";
// A sweep: any figure over any varied field, a line for each combination of the others; predicted and measured.

const FIGURES = {
  median_step_seconds: {name: "step time", text: secondsText}, tokens_per_second: {name: "tokens (or samples) per second", text: d3.format(",.4~g")},
  speed_up: {name: "speed-up", text: d3.format(".3~f")}, efficiency: {name: "efficiency", text: shareText},
  peak_bytes: {name: "peak memory", text: bytesText}, exposed_communication_seconds: {name: "exposed communication", text: secondsText},
  mfu: {name: "MFU", text: shareText},
};

class SweepView {
  constructor(root, data) {
    this.data = data, this.root = root;
    this.fields = [...new Set(data.points.flatMap((p) => Object.keys(p.set)))];
    if (data.points.some((p) => p.ranks !== data.points[0].ranks)) this.fields.push("ranks");
    const sides = ["predicted", "measured"].filter((side) => data.points.some((p) => p[side]));
    this.sides = sides;
    const has = (figure) => data.points.some((p) => sides.some((side) => typeof p[side]?.[figure] === "number" && p[side][figure] !== 0));
    this.figure = this.select("figure", "y", Object.keys(FIGURES).filter(has).map((f) => [f, FIGURES[f].name]));
    this.field = this.select("field", "x", this.fields.map((f) => [f, f]));
    this.log = element("input", {type: "checkbox", id: "sweep-log"});
    this.log.addEventListener("change", () => this.draw());
    root.append(element("div", {class: "bar"}, element("label", {}, "figure: ", this.figure), element("label", {}, "over: ", this.field), element("label", {}, this.log, " logarithmic")));
    this.place = element("div"), root.append(this.place);
    this.draw();
  }

  select(what, axis, options) {
    const select = element("select", {id: "sweep-" + axis, "aria-label": what});
    for (const [value, name] of options) select.append(element("option", {value}, name));
    select.addEventListener("change", () => this.draw());
    return select;
  }

  // [{name, side, points: [{x, y, low, high}]}]
  lines() {
    const field = this.field.value, figure = this.figure.value, lines = new Map();
    for (const point of this.data.points) {
      const others = Object.entries(point.set).filter(([name]) => name !== field && !(field === "ranks" && name.startsWith("parallel."))).map(([name, value]) => `${name}=${value}`).join(" ");
      for (const side of this.sides) {
        const y = point[side]?.[figure];
        if (typeof y !== "number") continue;
        const timed = figure === "median_step_seconds";
        pushTo(lines, `${side} ${others}`, {side, others, x: field === "ranks" ? point.ranks : point.set[field], y, low: timed ? point[side].low : null, high: timed ? point[side].high : null});
      }
    }
    return [...lines.values()];
  }

  draw() {
    const lines = this.lines(), text = FIGURES[this.figure.value].text, width = Math.max(320, this.place.clientWidth), height = 380;
    const names = [...new Set(lines.flat().map((p) => p.x))], numbers = names.every((x) => x !== "" && Number.isFinite(Number(x)));
    const places = numbers ? names.map(Number) : names;
    const right = width - 16, x = numbers ? d3.scaleLog([d3.min(places) || 1, d3.max(places) || 1], [90, right]) : d3.scalePoint(places, [90, right]).padding(0.5);
    const at = (p) => x(numbers ? Number(p.x) : p.x);
    const most = d3.max(lines.flat(), (p) => p.high ?? p.y), least = d3.min(lines.flat().filter((p) => p.y > 0), (p) => p.low || p.y);
    const y = this.log.checked ? d3.scaleLog([least, most], [height - 44, 14]) : d3.scaleLinear([0, most], [height - 44, 14]);
    const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", `${FIGURES[this.figure.value].name} over ${this.field.value}`);
    for (const tick of y.ticks(6)) {
      svg.append("path").attr("class", "rule").attr("d", `M90 ${y(tick)}H${right}`);
      svg.append("text").attr("class", "soft end").attr("x", 82).attr("y", y(tick) + 4).text(text(tick));
    }
    for (const place of places) svg.append("text").attr("class", "soft mid").attr("x", x(place)).attr("y", height - 24).text(place);
    svg.append("text").attr("class", "soft mid").attr("x", (90 + right) / 2).attr("y", height - 6).text(this.field.value);
    const others = [...new Set(lines.flat().map((p) => p.others))];
    lines.forEach((line) => {
      line.sort((a, b) => at(a) - at(b));
      const colour = this.sides.length > 1 && others.length === 1 ? this.sides.indexOf(line[0].side) : others.indexOf(line[0].others) % 8;
      svg.append("path").attr("class", `series p${colour}${line[0].side === "predicted" ? " dashed" : ""}`).attr("d", d3.line().x(at).y((p) => y(p.y))(line));
      for (const p of line) {
        if (p.low > 0) svg.append("path").attr("class", `series thin p${colour}`).attr("d", `M${at(p)} ${y(p.low)}V${y(p.high)}`);
        svg.append("circle").attr("class", `q${colour}`).attr("cx", at(p)).attr("cy", y(p.y)).attr("r", 3.5).attr("data-value", p.y)
          .append("title").text(`${p.side} ${p.others} ${this.field.value}=${p.x}: ${text(p.y)}`);
      }
    });
    const legend = element("p", {class: "legend"}, ...lines.map((line) => element("span", {}, `${line[0].side === "predicted" ? "- - " : "— "}${line[0].side} ${line[0].others}`)));
    this.place.replaceChildren(svg.node(), legend);
  }
}
