"use strict";
// The topology, its links coloured by what they carry at the moment of the cursor. Large networks are drawn by levels, groups,
// blocks or nodes: a circle stands for so many parts, and a line for all links between two circles, both ways.

const LAYER = 92, ROW = 26, MOST_IN_ROW = 64;  // pixels between layers, and between the rows of one; circles in a row
const DETAIL_NAMES = {levels: "levels", groups: "groups", "one group": "one group: its switches and nodes", blocks: "blocks of the grid", nodes: "nodes and switches", "one node": "one node in whole", "all parts": "all parts"};

class NetworkPicture {
  constructor(root, runs, shared) {
    this.runs = runs.filter((run) => run.links.pictures.pictures.length > 0);
    this.shared = shared;
    this.moment = null;  // seconds; null: the mean of what is shown
    if (this.runs.length === 0) return;
    this.run = this.runs[0];
    this.canvas = element("canvas", {id: "network-picture", role: "img", "aria-label": "The topology, its links coloured by load. The table below has the same as figures."});
    this.frame = element("div", {}, this.canvas);
    this.words = element("p", {id: "network-words", class: "sub", role: "status"});
    root.append(this.controls(), this.frame, this.legend(), this.words);
    this.rows = [];
    this.details = tableOnDemand(root, "The picture's links as a table", ["from", "to", "links", "bandwidth", "bytes", "load at the moment", "of the busiest link"], () => []);
    this.details.id = "network-links";
    this.details.addEventListener("toggle", () => this.fillTable());
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    new ResizeObserver(() => { this.room = this.frame.clientWidth, shared.set({}); }).observe(this.frame);
    this.room = this.frame.clientWidth;
    this.near = true;
    whenNear(this.frame, (near) => { this.near = near; if (near) shared.set({}); });
    this.choose(bestDetail(this.run.links.pictures.pictures));
    shared.changed(() => this.changed());
  }

  controls() {
    const pick = (id, label, options, chosen) => {
      const box = element("select", {id, "aria-label": label}, ...options.map(([value, text]) => element("option", {value}, text)));
      box.addEventListener("change", () => chosen(box.value));
      return box;
    };
    const run = pick("network-run", "run", this.runs.map((r, i) => [i, r.title]), (value) => {
      this.run = this.runs[value];
      this.choose(bestDetail(this.run.links.pictures.pictures));
    });
    run.hidden = this.runs.length < 2;
    this.detail = element("select", {id: "network-detail", "aria-label": "level of detail"});
    this.detail.addEventListener("change", () => this.choose(Number(this.detail.value)));
    this.slider = element("input", {type: "range", id: "network-moment", min: "0", max: "1000", value: "0", "aria-label": "moment"});
    this.slider.addEventListener("input", () => this.shared.set({cursor: this.shared.from + this.slider.value / 1000 * (this.shared.to - this.shared.from)}));
    const mean = element("button", {type: "button", id: "network-mean"}, "mean of what is shown");
    mean.addEventListener("click", () => {
      this.moment = null;
      this.shared.set({cursor: null});
    });
    return element("div", {class: "bar"}, run, element("label", {}, "picture of ", this.detail), element("label", {}, "moment ", this.slider), mean);
  }

  legend() {
    const steps = [0, 0.01, 0.05, 0.2, 0.5, 1].map((share) => element("span", {}, element("i", {"data-share": share}), shareText(share)));
    this.marks = steps.map((step) => step.firstChild);
    return element("p", {class: "legend"}, "share of bandwidth in use, of the busier direction:", ...steps);
  }

  choose(number) {
    const {pictures} = this.run.links.pictures;
    this.detail.replaceChildren(...pictures.map((p, i) => element("option", {value: i}, `${DETAIL_NAMES[p.detail] ?? p.detail} (${countText(p.cells.length)})`)));
    this.detail.value = number;
    this.picture = pictures[number];
    this.wires = wiresOf(this.picture);
    this.size = null;
    this.fillTable();
    this.shared.set({});
  }

  changed() {
    if (this.shared.cursor !== null) this.moment = this.shared.cursor;
    if (this.near || this.shared.printing) this.draw();
  }

  // Mean loads of one edge, and of its busiest link, at the moment; shares of the bandwidth.
  loadsOf(edge) {
    if (edge.series < 0) return [0, 0];
    const {begin, width, series} = this.run.links.pictures, {load, highest} = series[edge.series];
    const busiest = highest.length > 0 ? highest : load;
    if (this.moment !== null) {
      const bin = Math.floor((this.moment - begin) / width);
      return [(load[bin] ?? 0) / 1e6, (busiest[bin] ?? 0) / 1e6];
    }
    const from = Math.max(0, Math.floor((this.shared.from - begin) / width)), to = Math.max(from + 1, Math.ceil((this.shared.to - begin) / width));
    return [d3.sum(load.slice(from, to)) / (to - from) / 1e6, d3.sum(busiest.slice(from, to)) / (to - from) / 1e6];
  }

  // Where each cell is: layers from below to above, or the grid.
  lay() {
    const {cells} = this.picture, width = this.room;
    if (this.size?.room === width) return;
    const layers = d3.groups(cells, (cell) => cell.layer).sort((a, b) => a[0] - b[0]).map(([, of]) => of);
    const heights = layers.map((of) => of[0].place.length > 0 ? layGrid(of, width) : layRows(of, width, this.wires.some((wire) => wire.within === of[0].layer)));
    let y = 16;
    for (let i = layers.length - 1; i >= 0; --i) {
      for (const cell of layers[i]) cell.y += y;
      y += heights[i] + (i > 0 ? LAYER - ROW : 0);
    }
    this.size = {room: width, height: y + 22};
  }

  draw() {
    this.lay();
    const context = emptyCanvas(this.canvas, this.room, this.size.height);
    const colour = loadColour();
    const order = this.wires.map((wire) => ({wire, load: d3.max(wire.edges, (edge) => this.loadsOf(edge)[0])})).sort((a, b) => a.load - b.load);
    for (const {wire, load} of order) {
      if (wire.a === wire.b) { wire.a.load = load; continue; }
      context.strokeStyle = colour(load), context.lineWidth = load > 0 ? 1.25 + 3 * Math.sqrt(Math.min(1, load)) : 0.75;
      context.beginPath();
      wirePath(context, wire);
      context.stroke();
    }
    for (const cell of this.picture.cells) this.drawCell(context, cell, colour);
    this.drawNames(context);
    for (const mark of this.marks) mark.style.background = colour(Number(mark.dataset.share));
    this.say(order);
    this.updateTable();
    if (this.moment !== null) this.slider.value = 1000 * (this.moment - this.shared.from) / (this.shared.to - this.shared.from);
  }

  drawCell(context, cell, colour) {
    context.fillStyle = cell.load === undefined ? theme.colour("panel") : colour(cell.load);
    context.strokeStyle = theme.colour("soft"), context.lineWidth = 1;
    context.beginPath();
    if (cell.layer === 0 || cell.kind === "NIC") context.rect(cell.x - cell.r, cell.y - cell.r, 2 * cell.r, 2 * cell.r);
    else context.arc(cell.x, cell.y, cell.r, 0, 2 * Math.PI);
    context.fill(), context.stroke();
  }

  // A name for each circle if there is room, else one for each layer.
  drawNames(context) {
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif", context.fillStyle = theme.colour("soft"), context.textBaseline = "middle";
    for (const [, all] of d3.groups(this.picture.cells, (cell) => cell.layer)) {
      const cells = all.filter((cell) => !cell.apart), besides = all.filter((cell) => cell.apart);
      context.textAlign = "center";
      for (const cell of besides) drawName(context, cellName(cell), cell.x, cell.y + cell.r + 10);
      const room = cells[0].room - 6, names = cells.map(cellName), low = d3.max(cells, (cell) => cell.y + cell.r) + 10;
      const apart = cells[0].place.length > 0 || cells.every((cell) => cell.y === cells[0].y);
      const fits = apart && names.every((name) => context.measureText(name).width < room);
      context.textAlign = fits ? "center" : "left";
      if (fits) cells.forEach((cell, i) => drawName(context, names[i], cell.x, cell.y + cell.r + 10));
      else drawName(context, kindsText(cells), 4, low);
    }
  }

  say(order) {
    const busiest = order.slice(-3).reverse().filter(({load}) => load > 0);
    const when = this.moment === null ? "Mean of what is shown" : `At ${secondsText(this.moment)}`;
    this.words.textContent = busiest.length === 0 ? `${when}: no link carries anything.`
      : `${when}, links carry most ${busiest.map(({wire, load}) => `${wireName(wire)} (${shareText(load)} of their bandwidth)`).join(", ")}.`;
  }

  fillTable() {
    if (!this.details.open) return;
    const {cells, edges} = this.picture;
    this.rows = edges.map((edge) => ({edge, now: element("td"), most: element("td")}));
    const table = element("table", {}, element("tr", {}, ...["from", "to", "links", "bandwidth", "bytes", "load at the moment", "of the busiest link"].map((h, i) => element("th", i === 1 ? {class: "left"} : {}, h))));
    for (const {edge, now, most} of this.rows)
      table.append(element("tr", {}, element("td", {}, cellName(cells[edge.from])), element("td", {class: "left"}, cellName(cells[edge.to])), element("td", {"data-links": edge.links}, countText(edge.links)),
                           element("td", {}, rateText(edge.bandwidth)), element("td", {"data-bytes": edge.bytes}, bytesText(Math.round(edge.bytes))), now, most));
    this.details.replaceChildren(this.details.firstChild, element("div", {class: "wrap"}, table));
    this.updateTable();
  }

  updateTable() {
    if (!this.details.open) return;
    for (const {edge, now, most} of this.rows) {
      const [load, highest] = this.loadsOf(edge);
      now.textContent = shareText(load), now.dataset.load = load;
      most.textContent = shareText(highest), most.dataset.load = highest;
    }
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const cell = this.picture.cells.find((c) => Math.abs(c.x - x) <= c.r + 2 && Math.abs(c.y - y) <= c.r + 2);
    const told = (edge) => {
      const [load, highest] = this.loadsOf(edge);
      return `${cellName(this.picture.cells[edge.from])} to ${cellName(this.picture.cells[edge.to])}: ${countText(edge.links)} ${edge.links === 1 ? "link" : "links"} of ${rateText(edge.bandwidth / edge.links)}, ${shareText(load)} in use` +
        (edge.links > 1 ? `, of the busiest ${shareText(highest)}` : "");
    };
    if (cell) {
      const inside = this.wires.find((wire) => wire.a === cell && wire.b === cell);
      return tip.show(event, [cellName(cell), cell.kind, ...(inside ? inside.edges.map(told) : [])]);
    }
    const near = d3.least(this.wires.filter((wire) => wire.a !== wire.b), (wire) => distance(wire, x, y));
    if (!near || distance(near, x, y) > 6) return tip.hide();
    tip.show(event, [wireName(near), ...near.edges.map(told)]);
  }
}

// Readable where lines cross it.
function drawName(context, name, x, y) {
  context.strokeStyle = theme.colour("page"), context.lineWidth = 4, context.lineJoin = "round";
  context.strokeText(name, x, y), context.fillText(name, x, y);
}

// Of a share of the bandwidth: by its root, so that small ones are told apart.
const loadColour = () => d3.scaleSqrt([0, 0.2, 1], [theme.colour("rule"), theme.colour("blue"), theme.colour("red")]).clamp(true);

// The most detailed picture of the whole that is still easy to read; where that is of levels alone, one group if there is one.
function bestDetail(pictures) {
  const whole = Math.max(0, d3.maxIndex(pictures, (p, i) => !p.detail.startsWith("one ") && p.cells.length <= 100 && p.edges.length <= 500 ? i : -1));
  return whole > 0 ? whole : Math.max(0, pictures.findIndex((p) => p.detail === "one group"));
}

// Edges there and back are one wire. `within`: the layer in which both its ends are.
function wiresOf(picture) {
  const wires = new Map();
  for (const edge of picture.edges) {
    const [low, high] = [Math.min(edge.from, edge.to), Math.max(edge.from, edge.to)], key = low * picture.cells.length + high;
    if (!wires.has(key)) {
      const a = picture.cells[low], b = picture.cells[high];
      wires.set(key, {a, b, edges: [], within: a !== b && a.layer === b.layer ? a.layer : null});
    }
    wires.get(key).edges.push(edge);
  }
  return [...wires.values()];
}

// In rows, those of a layer whose cells are joined with each other around an ellipse; what stands for many other parts is
// beside it. Returns the height.
function layRows(all, width, joined) {
  const others = joined && all.length > 3 ? all.filter((cell) => cell.parts > 1) : [];
  const cells = others.length === 1 ? all.filter((cell) => cell.parts === 1) : all;
  const many = cells.length, round = joined && many > 2;
  const inRow = round ? many : Math.min(many, MOST_IN_ROW), rows = Math.ceil(many / inRow), room = (width - 16) / (round ? 2 + many / 3 : inRow);
  const high = round ? Math.min(420, 60 + 9 * many) : rows * ROW;
  cells.forEach((cell, i) => {
    cell.room = room, cell.r = Math.max(3, Math.min(9, room / 3));
    const turn = 2 * Math.PI * (i + 0.5) / many + Math.PI / 2;
    cell.x = round ? width / 2 + Math.cos(turn) * Math.min(width * 0.42, high) : 8 + room * (i % inRow + 0.5);
    cell.y = round ? high / 2 + Math.sin(turn) * (high / 2 - 12) : (Math.floor(i / inRow) + 0.5) * ROW;
    if (round) cell.room = 0;
  });
  if (cells !== all) Object.assign(others[0], {room: 0, apart: true, r: cells[0].r, x: width * (width > 700 ? 0.88 : 0.96), y: high / 2});
  return high;
}

// The longer of the first two dimensions to the right, the other down; slices of the others side by side.
function layGrid(cells, width) {
  const dims = cells[0].place.map((_, d) => 1 + d3.max(cells, (cell) => cell.place[d])), turned = dims[1] > dims[0];
  const across = dims[turned ? 1 : 0], down = dims[turned ? 0 : 1] ?? 1, slices = dims.slice(2).reduce((product, n) => product * n, 1);
  const inRow = Math.max(1, Math.min(slices, Math.floor(width / ((across + 1) * 22)) || 1));
  const step = Math.min(Math.max(46, Math.min(100, 400 / Math.sqrt(cells.length))), (width - 16) / (inRow * (across + 1)));  // few are far apart
  for (const cell of cells) {
    const [right, below] = turned ? [cell.place[1], cell.place[0]] : [cell.place[0], cell.place[1] ?? 0], slice = cell.place.slice(2).reduceRight((sum, at, d) => sum * dims[d + 2] + at, 0);
    cell.step = step, cell.room = step >= 72 ? step : 0, cell.r = Math.max(2, Math.min(9, step / 4));
    cell.x = (width - step * inRow * (across + 1)) / 2 + step * ((slice % inRow) * (across + 1) + right + 1);
    cell.y = step * (Math.floor(slice / inRow) * (down + 1) + below + 0.5);
  }
  return step * (Math.ceil(slices / inRow) * (down + 1) - 1);
}

// Straight, but bent between two circles that others may lie between.
function bentAt({a, b, within}) {
  if (within === null || a.room === 0 && a.place.length === 0) return null;  // around an ellipse
  const long = Math.hypot(b.x - a.x, b.y - a.y), bend = Math.min(60, 6 + 0.22 * long);
  return long < (a.place.length > 0 ? 1.5 * a.step : 3.4 * a.r + 16) ? null : [(a.x + b.x) / 2 + (b.y - a.y) / long * bend, (a.y + b.y) / 2 - Math.abs(b.x - a.x) / long * bend];
}

function wirePath(context, wire) {
  const bent = bentAt(wire);
  context.moveTo(wire.a.x, wire.a.y);
  if (bent) context.quadraticCurveTo(...bent, wire.b.x, wire.b.y);
  else context.lineTo(wire.b.x, wire.b.y);
}

// In pixels, from a point to a wire.
function distance(wire, x, y) {
  const {a, b} = wire, [cx, cy] = bentAt(wire) ?? [(a.x + b.x) / 2, (a.y + b.y) / 2];
  let least = Infinity, [px, py] = [a.x, a.y];
  for (let i = 1; i <= 8; ++i) {
    const t = i / 8, u = 1 - t, qx = u * u * a.x + 2 * u * t * cx + t * t * b.x, qy = u * u * a.y + 2 * u * t * cy + t * t * b.y;
    const along = Math.max(0, Math.min(1, ((x - px) * (qx - px) + (y - py) * (qy - py)) / ((qx - px) ** 2 + (qy - py) ** 2 || 1)));
    least = Math.min(least, Math.hypot(x - px - along * (qx - px), y - py - along * (qy - py)));
    px = qx, py = qy;
  }
  return least;
}

const cellName = (cell) => cell.parts > 1 && cell.kind !== "node" ? `${cell.name} × ${countText(cell.parts)}` : cell.name;
const wireName = ({a, b}) => a === b ? `within ${cellName(a)}` : `between ${cellName(a)} and ${cellName(b)}`;

function kindsText(cells) {
  return d3.groups(cells, (cell) => cell.kind).map(([kind, of]) => {
    const parts = d3.sum(of, (cell) => cell.parts), drawn = kind === "node" ? of.length : parts;
    return of.length === 1 ? cellName(of[0]) : `${countText(drawn)} × ${kind}` + (drawn > of.length ? ` drawn as ${countText(of.length)}` : "");
  }).join(", ");
}
