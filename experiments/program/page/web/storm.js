"use strict";
// A replayed schedule of a storm: each rank's steps over time, in the colour of their generation, and what struck it.

const MEMBER = 26;  // pixels
const GENERATION_COLOURS = ["blue", "teal", "purple", "green", "orange", "cyan"];
const ENDS = {returned: "has done its part", threw: "ends with an error"};

class StormView {
  constructor(root, data, shared) {
    this.data = data, this.shared = shared;
    this.ranks = storyByRank(data);
    root.append(this.stretches());
    const frame = element("div", {class: "scroll"});
    root.append(frame);
    this.view = new TimeCanvas(frame, shared, "What each rank did over time, and what struck it. The tables below have the same.");
    this.view.hovered = (event) => this.hover(event);
    this.words = element("p", {id: "storm-words"});
    const generations = [...new Set(data.moments.map(([, , generation]) => generation))].sort((a, b) => a - b);
    root.append(element("p", {class: "legend"}, ...generations.map((g) =>
      element("span", {}, element("i", {style: `background:var(--${this.colour(g)})`}), `steps of generation ${g}`)),
      element("span", {}, element("i", {style: "background:var(--red)"}), "a disaster, and as long as it lasts"),
      element("span", {}, "◆ a checkpoint"), element("span", {}, "✕ ends with an error")), this.words);
    tableOnDemand(root, "Table: what each rank did", ["after", "rank", "generation", "what"],
                  () => data.moments.map(([what, rank, generation, steps, seconds]) => [secondsText(seconds), rank, generation, this.said(what, steps)]));
    tableOnDemand(root, "Table: what struck whom", ["after", "rank", "what", "lasts until"], () => data.struck.map((s) =>
      [s.seconds === null ? "not known" : secondsText(s.seconds), s.rank, s.text, s.stretches.map(([, to]) => secondsText(to)).join(", ")]));
    shared.changed(() => this.draw());
  }

  colour(generation) { return GENERATION_COLOURS[generation % GENERATION_COLOURS.length]; }

  said(what, steps) {
    if (what === "done") return `has done ${steps} steps`;
    return what === "saved" ? `announces a checkpoint of ${steps} steps` : ENDS[what];
  }

  // A hang of a minute hides steps of milliseconds: buttons show each generation's time alone.
  stretches() {
    const bar = element("div", {class: "bar"});
    const button = (id, name, from, to) => {
      const made = element("button", {id}, name);
      made.addEventListener("click", () => this.shared.show(from, to));
      bar.append(made);
    };
    button("storm-all", "all", 0, this.shared.end);
    for (const [generation, times] of d3.group(this.data.moments.filter(([what]) => what === "done"), (m) => m[2])) {
      const [from, to] = d3.extent(times, (m) => m[4]), margin = Math.max((to - from) * 0.05, 1e-9);
      button(`storm-generation-${generation}`, `generation ${generation}`, from - margin, to + margin);
    }
    return bar;
  }

  draw() {
    const context = this.view.begin(AXIS + 6 + this.ranks.length * MEMBER), x = this.view.scale, right = this.view.width - 8;
    const clamped = (t) => Math.min(right, Math.max(GUTTER, x(t)));
    this.view.axis(context);
    this.ranks.forEach((rank, i) => {
      const y = AXIS + 4 + i * MEMBER;
      context.fillStyle = theme.colour("rule"), context.fillRect(GUTTER, y + 11, right - GUTTER, 1);
      for (const step of rank.steps) {
        const from = clamped(step.from), to = clamped(step.to);
        if (to <= from && (step.to < this.shared.from || step.from > this.shared.to)) continue;
        context.fillStyle = theme.colour(this.colour(step.generation));
        context.fillRect(from, y + 4, Math.max(0.5, to - from - (to - from > 4 ? 1 : 0)), 15);
        if (to - from < 18) continue;
        context.fillStyle = theme.colour("page"), context.textAlign = "center";
        context.fillText(String(step.number), (from + to) / 2, y + 12);
      }
      context.fillStyle = theme.colour("red");
      for (const struck of rank.struck) {
        for (const [from, to] of struck.stretches) context.fillRect(clamped(from), y + 19, Math.max(1, clamped(to) - clamped(from)), 4);
        if (struck.seconds !== null && this.shown(struck.seconds)) context.fillRect(Math.round(x(struck.seconds)) - 1, y, 3, 23);
      }
      context.textAlign = "center", context.fillStyle = theme.colour("ink");
      for (const saved of rank.saved) if (this.shown(saved)) context.fillText("◆", x(saved), y + 12);
      if (rank.threw !== null && this.shown(rank.threw)) context.fillText("✕", x(rank.threw), y + 12);
      context.fillStyle = theme.colour("page"), context.fillRect(0, y, GUTTER - 2, MEMBER);
      context.fillStyle = theme.colour("soft"), context.textAlign = "left", context.fillText(`rank ${rank.number}`, 14, y + 12);
    });
    this.view.cursor(context);
    this.tell();
  }

  shown(t) { return t >= this.shared.from && t <= this.shared.to; }

  // What each rank does at the cursor.
  tell() {
    const t = this.shared.cursor;
    this.words.textContent = t === null ? "" : `At ${secondsText(t)}: ` + this.ranks.map((rank) => `rank ${rank.number} ${this.doing(rank, t)}`).join("; ");
  }

  doing(rank, t) {
    const struck = rank.struck.filter((s) => s.stretches.some(([from, to]) => from <= t && t < to)).map((s) => ` (${s.text})`).join("");
    const step = rank.steps.find((s) => s.from <= t && t < s.to);
    if (step) return `does step ${step.number} of generation ${step.generation}${struck}`;
    if (rank.ended !== null && t >= rank.ended) return rank.threw !== null ? "has ended with an error" : "has done its part";
    return (t < rank.begins ? "has not begun to train" : "forms a generation, recovers, or is gone") + struck;
  }

  hover(event) {
    const y = event.clientY - this.view.canvas.getBoundingClientRect().top, t = this.view.timeAt(event);
    const rank = this.ranks[Math.floor((y - AXIS - 4) / MEMBER)];
    if (!rank) return tip.hide();
    const near = 4 * (this.shared.to - this.shared.from) / (this.view.width - 8 - GUTTER);
    const struck = rank.struck.filter((s) => s.seconds !== null && Math.abs(s.seconds - t) <= near).map((s) => `${s.text}, after ${secondsText(s.seconds)}`);
    tip.show(event, [`rank ${rank.number}`, this.doing(rank, t), ...struck]);
  }
}

// [{number, steps: [{number, generation, from, to}], saved: [seconds], threw, ended, begins, struck}], by rank. A step is what lies between
// two moments of one generation at which a rank has done one more.
function storyByRank(data) {
  const numbers = new Set([...data.moments.map((m) => m[1]), ...data.struck.map((s) => s.rank)]);
  return [...numbers].sort((a, b) => a - b).map((number) => {
    const own = data.moments.filter((m) => m[1] === number), steps = [];
    let before = null;
    for (const [what, , generation, done, seconds] of own) {
      if (what !== "done") continue;
      if (before && before.generation === generation && done === before.done + 1) steps.push({number: done, generation, from: before.seconds, to: seconds});
      before = {generation, done, seconds};
    }
    const of = (kind) => own.filter(([what]) => what === kind).map((m) => m[4]);
    return {number, steps, saved: of("saved"), threw: of("threw")[0] ?? null, ended: of("threw")[0] ?? of("returned")[0] ?? null,
            begins: of("done")[0] ?? Infinity, struck: data.struck.filter((s) => s.rank === number)};
  });
}
