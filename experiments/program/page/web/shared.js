"use strict";
// What all views share: the stretch of time that is shown, the cursor, the chosen span, and the colours of the theme.
// A view subscribes with `changed`; all are drawn at most once a frame.

class Shared {
  constructor(end) {
    this.end = end;            // seconds: all runs' traces lie in [0, end]
    this.from = 0;
    this.to = end;
    this.cursor = null;        // seconds, or null: the pointer is elsewhere
    this.chosen = null;        // {lane, index}: a span
    this.listeners = [];
    this.pending = false;
    this.frames = [];          // of the latest ones: milliseconds of script, and until the page was painted, too
    this.painted = new MessageChannel();
    this.printing = false;     // then what is outside of the window is drawn, too
    window.addEventListener("beforeprint", () => this.print());
  }

  print() {
    this.printing = true;
    for (const listener of this.listeners) listener(this);
    this.printing = false;
  }

  changed(listener) { this.listeners.push(listener); }

  set(values) {
    Object.assign(this, values);
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const begin = performance.now();
      for (const listener of this.listeners) listener(this);
      const frame = {script: performance.now() - begin};
      this.frames.push(frame);
      if (this.frames.length > 1000) this.frames.shift();
      // Comes when this frame has been laid out and painted, since that is the rest of the task which called this function.
      this.painted.port1.onmessage = () => { frame.painted = performance.now() - begin; };
      this.painted.port2.postMessage(null);
    });
  }

  // Shows [from, to], moved and cut so that it lies in [0, end]; no less than a nanosecond.
  show(from, to) {
    const width = Math.min(Math.max(to - from, 1e-9), this.end);
    const begin = Math.min(Math.max(from, 0), this.end - width);
    this.set({from: begin, to: begin + width});
  }

  zoom(factor, at) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }
}

const theme = {
  colours: new Map(),  // "#4477aa" by name
  numbers: new Map(),  // 0x4477aa by name
  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["page", "ink", "soft", "rule", "panel", "blue", "cyan", "green", "yellow", "red", "purple", "grey", "orange", "teal"])
      this.colours.set(name, style.getPropertyValue("--" + name).trim());
    for (const [name, colour] of this.colours) this.numbers.set(name, parseInt(colour.slice(1), 16));
  },
  colour(name) { return this.colours.get(name); },
};

const CLASS_COLOURS = {
  product: "blue", attention: "cyan", norm: "green", element: "yellow", loss: "purple", optimizer: "orange",
  communication: "red", transfer: "teal", other: "grey",
};
const CLASS_NAMES = {
  product: "matrix products", attention: "attention", norm: "norms", element: "element-wise", loss: "embeddings and losses",
  optimizer: "optimizer", communication: "communication", transfer: "transfers", other: "other",
};
const CATEGORY_COLOURS = {
  parameters: "blue", gradients: "red", optimizer_state: "orange", activations: "green", communication: "purple", other: "grey",
};

// ---- Text ----

function secondsText(v) {
  const size = Math.abs(v);
  if (v === 0) return "0 s";
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
    if (size >= scale) return (v / scale).toPrecision(4) + " " + unit;
  return (v / 1e-9).toPrecision(3) + " ns";
}

function bytesText(v) {
  const size = Math.abs(v);
  for (const [unit, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (size >= scale) return (v / scale).toPrecision(4) + " " + unit;
  return v + " B";
}

const countText = d3.format(",");
const shareText = (v) => v > 0 && v < 1e-4 ? "< 0.01 %" : (100 * v).toPrecision(3) + " %";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- Drawing over time ----

const GUTTER = 168;  // pixels at the left, for names
const AXIS = 22;     // pixels at the top, for the axis

// A canvas as wide as its parent, sharp on any screen. `draw(context, width, height)` draws it anew.
class TimeCanvas {
  constructor(parent, shared, label) {
    this.shared = shared;
    this.canvas = element("canvas", {tabindex: "0", role: "img", "aria-label": label});
    parent.append(this.canvas);
    this.height = 0;
    this.room = parent.clientWidth;  // kept: reading it while a frame is drawn would lay out the page anew
    new ResizeObserver(() => { this.room = parent.clientWidth, shared.set({}); }).observe(parent);
    this.near = true;  // to the window, or never drawn
    whenNear(parent, (near) => { this.near = near; if (near) shared.set({}); });
    this.attachKeys();
    this.attachPointer();
  }

  get unseen() { return !this.near && !this.shared.printing; }

  begin(height) {
    const ratio = window.devicePixelRatio || 1, width = this.room;
    if (this.canvas.width !== Math.round(width * ratio) || this.height !== height) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = width + "px";
      this.canvas.style.height = height + "px";
    }
    this.width = width, this.height = height;
    this.scale = d3.scaleLinear([this.shared.from, this.shared.to], [GUTTER, width - 8]);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.colour("page");
    context.fillRect(0, 0, width, height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    return context;
  }

  axis(context) {
    context.strokeStyle = theme.colour("rule");
    context.fillStyle = theme.colour("soft");
    context.textAlign = "center";
    context.lineWidth = 1;
    const ticks = this.scale.ticks(Math.max(2, (this.width - GUTTER) / 110));
    const alike = ticks.length > 1 && secondsText(ticks[0]) === secondsText(ticks[1]);  // then those after the first tell how much later
    for (const t of ticks) {
      const x = Math.round(this.scale(t)) + 0.5;
      context.beginPath(), context.moveTo(x, AXIS - 4), context.lineTo(x, this.height), context.stroke();
      context.fillText(alike && t !== ticks[0] ? "+" + secondsText(t - ticks[0]) : secondsText(t), x, AXIS / 2 - 1);
    }
  }

  cursor(context) {
    const t = this.shared.cursor;
    if (t === null || t < this.shared.from || t > this.shared.to) return;
    const x = Math.round(this.scale(t)) + 0.5;
    context.strokeStyle = theme.colour("ink");
    context.setLineDash([3, 3]), context.beginPath(), context.moveTo(x, AXIS), context.lineTo(x, this.height), context.stroke();
    context.setLineDash([]);
  }

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.scale.invert(Math.max(GUTTER, event.clientX - box.left));
  }

  attachKeys() {
    this.canvas.addEventListener("keydown", (event) => {
      const at = this.shared.cursor ?? (this.shared.from + this.shared.to) / 2;
      const actions = {
        w: () => this.shared.zoom(0.7, at), s: () => this.shared.zoom(1 / 0.7, at),
        a: () => this.shared.pan(-0.2), d: () => this.shared.pan(0.2),
        "+": () => this.shared.zoom(0.7, at), "-": () => this.shared.zoom(1 / 0.7, at),
        ArrowLeft: () => this.shared.pan(-0.2), ArrowRight: () => this.shared.pan(0.2),
        0: () => this.shared.show(0, this.shared.end),
      };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      action();
      event.preventDefault();
    });
  }

  attachPointer() {
    let held = null;
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;  // the page scrolls
      event.preventDefault();
      const turned = event.deltaY || event.deltaX;
      this.shared.zoom(Math.exp(turned * 0.002), this.timeAt(event));
    }, {passive: false});
    this.canvas.addEventListener("pointerdown", (event) => {
      held = {x: event.clientX, from: this.shared.from, to: this.shared.to, moved: false};
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (held) {
        const by = (held.x - event.clientX) / (this.width - 8 - GUTTER) * (held.to - held.from);
        held.moved = held.moved || Math.abs(held.x - event.clientX) > 3;
        if (held.moved) this.shared.show(held.from + by, held.to + by);
      }
      this.shared.set({cursor: this.timeAt(event)});
      if (this.hovered) this.hovered(event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const clicked = held && !held.moved;
      held = null;
      if (clicked && this.clicked) this.clicked(event);
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.shared.set({cursor: null});
      tip.hide();
    });
    this.canvas.addEventListener("dblclick", (event) => this.shared.zoom(0.4, this.timeAt(event)));
  }
}

// Says when an element comes near to the window, and when it goes.
function whenNear(of, changed) {
  new IntersectionObserver((entries) => changed(entries.at(-1).isIntersecting), {rootMargin: "200px"}).observe(of);
}

// The words beside the pointer.
const tip = {
  box: element("div", {class: "tip", role: "status"}),
  show(event, lines) {
    if (!this.box.parentElement) document.body.append(this.box);
    this.box.replaceChildren(...lines.filter(Boolean).map((line, i) => element(i === 0 ? "b" : "div", {}, line)));
    this.box.style.display = "block";
    const right = event.clientX + 16 + this.box.offsetWidth > window.innerWidth;
    this.box.style.left = (right ? Math.max(4, event.clientX - this.box.offsetWidth - 12) : event.clientX + 16) + "px";
    this.box.style.top = Math.min(event.clientY + 14, window.innerHeight - this.box.offsetHeight - 6) + "px";
  },
  hide() { this.box.style.display = "none"; },
};

// A canvas of so many pixels of the page, as sharp as the screen and of the page's colour. Returns its context.
function emptyCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio, canvas.height = height * ratio;
  canvas.style.width = width + "px", canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.colour("page"), context.fillRect(0, 0, width, height);
  return context;
}

// A table behind a line to open it; its rows are made when it is opened.
function tableOnDemand(parent, title, head, rows) {
  const details = element("details", {}, element("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const table = element("table", {}, element("tr", {}, ...head.map((h) => element("th", {}, h))));
    for (const row of rows()) table.append(element("tr", {}, ...row.map((cell) => element("td", {}, String(cell)))));
    details.replaceChildren(details.firstChild, element("div", {class: "wrap"}, table));
  });
  parent.append(details);
  return details;
}

// A menu for each property that the rows differ in, to leave out rows by its values. Returns what is left out: sets of values by property.
function filterMenus(parent, names, rows, changed) {
  const bar = element("div", {class: "bar"}), hidden = new Map();
  for (const name of names) {
    const values = [...new Set(rows.map((row) => row[name]))].sort((a, b) => d3.ascending(a, b));
    if (values.length < 2) continue;
    const menu = element("details", {class: "menu", id: "filter-" + name}), title = name.replaceAll("_", " "), summary = element("summary", {}, title);
    const list = element("div", {class: "choices"});
    for (const value of values) {
      const box = element("input", {type: "checkbox", value: String(value), checked: ""});
      box.addEventListener("change", () => {
        const out = hidden.get(name) ?? new Set();
        box.checked ? out.delete(value) : out.add(value);
        hidden.set(name, out);
        summary.textContent = title + (out.size > 0 ? ` (${values.length - out.size} of ${values.length})` : "");
        changed();
      });
      list.append(element("label", {}, box, " " + (value ?? "not said")));
    }
    menu.append(summary, list);
    bar.append(menu);
  }
  parent.append(bar);
  return hidden;
}

const isLeft = (row, hidden) => [...hidden].every(([name, out]) => !out.has(row[name]));
