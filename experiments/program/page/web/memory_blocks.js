"use strict";
// What memory consists of at one instant: a table of who holds it, and a map of the allocator's segments and blocks. Both
// are made from the blocks that were there at the samples of the memory's time line.

const MAP_ROW = 14, MAP_GAP = 3, MAP_ROWS = 16;  // pixels, pixels, most rows
const MOST_ROWS = 40;                            // of the table
const GROUPINGS = {
  tensor: {title: "tensors", head: ["module", "tensor", "pass", "category"]},
  module: {title: "modules", head: ["module"]},
  pass: {title: "passes", head: ["pass"]},
};

class BlocksView {
  // `runs`: those with memory; `memoryOf(run)`: the rank that is shown
  constructor(root, runs, memoryOf) {
    this.runs = runs, this.memoryOf = memoryOf;
    this.grouping = element("select", {id: "blocks-by", "aria-label": "what the rows are"});
    for (const [name, {title}] of Object.entries(GROUPINGS)) this.grouping.append(element("option", {value: name}, title));
    this.grouping.addEventListener("change", () => this.tell(this.at, this.when));
    this.filter = element("input", {id: "blocks-filter", placeholder: "part of a name", "aria-label": "part of a module's, tensor's or pass's name"});
    this.filter.addEventListener("input", () => this.tell(this.at, this.when));
    this.heading = element("h3", {id: "blocks-when"});
    this.table = element("table", {id: "blocks-table"});
    this.maps = runs.map((run, i) => new PoolMap(run, i));
    root.append(this.heading, element("div", {class: "bar"}, element("label", {}, "by ", this.grouping), this.filter),
      element("div", {class: "wrap"}, this.table), element("h3", {}, "Blocks of the allocator at that instant"), ...this.maps.map((map) => map.root));
  }

  // `at`: of each run, the place of the sample
  tell(at, when) {
    const words = `Who holds the memory ${when}`;
    const asked = [...at, when, this.grouping.value, this.filter.value, ...this.runs.map((run) => this.memoryOf(run).rank)].join();
    if (asked !== this.asked) {
      this.asked = asked, this.at = at, this.when = when;
      this.heading.textContent = words;
      this.tabulate();
    }
    this.maps.forEach((map, i) => map.draw(this.memoryOf(this.runs[i]), at[i]));
  }

  // Bytes and number of blocks of each run, by what the rows are.
  rows() {
    const head = GROUPINGS[this.grouping.value].head, rows = new Map(), wanted = this.filter.value.toLowerCase();
    this.runs.forEach((run, r) => {
      const {owners, bytes, counts} = heldAt(this.memoryOf(run), this.at[r]);
      owners.forEach((owner, o) => {
        if (counts[o] === 0) return;
        if (wanted !== "" && !`${owner.module} ${owner.tensor} ${owner.pass}`.toLowerCase().includes(wanted)) return;
        const cells = head.map((name) => owner[name]), key = cells.join("\n");
        if (!rows.has(key)) rows.set(key, {cells, bytes: this.runs.map(() => 0), counts: this.runs.map(() => 0)});
        rows.get(key).bytes[r] += bytes[o], rows.get(key).counts[r] += counts[o];
      });
    });
    return d3.sort([...rows.values()], (a, b) => d3.descending(d3.max(a.bytes), d3.max(b.bytes)));
  }

  tabulate() {
    const head = GROUPINGS[this.grouping.value].head, rows = this.rows(), rest = rows.slice(MOST_ROWS);
    const sum = (of) => ({
      bytes: this.runs.map((_, r) => d3.sum(of, (row) => row.bytes[r])),
      counts: this.runs.map((_, r) => d3.sum(of, (row) => row.counts[r])),
    });
    const figures = ({bytes, counts}) => this.runs.flatMap((run, r) => this.memoryOf(run).owners
      ? [element("td", {"data-bytes": bytes[r]}, bytesText(bytes[r])), element("td", {}, countText(counts[r]))] : [element("td", {}, "not recorded"), element("td")]);
    const line = (cells, of, attributes = {}) => element("tr", attributes, ...cells.map((cell) => element("td", {class: "left"}, cell)), ...figures(of));
    const total = (text, of, kind) => line([text, ...head.slice(1).map(() => "")], of, {class: kind});
    const titles = this.runs.flatMap((run) => [element("th", {}, run.title), element("th", {}, "blocks")]);
    this.table.replaceChildren(
      element("tr", {}, ...head.map((name) => element("th", {class: "left"}, name)), ...titles),
      ...rows.slice(0, MOST_ROWS).map((row) => line(row.cells.map((cell, i) => named(head[i], cell)), row)));
    if (rest.length > 0) this.table.append(total(`${countText(rest.length)} more rows`, sum(rest), "rest"));
    this.table.append(total(this.filter.value === "" ? "live" : `with “${this.filter.value}” in their names`, sum(rows), "sum"));
  }
}

const counted = (count, what) => `${countText(count)} ${what}${count === 1 ? "" : "s"}`;

function named(what, text) {
  if (text !== "") return what === "category" ? text.replace("_", " ") : text;
  return what === "module" ? "(the whole model, or none)" : what === "pass" ? "(between passes)" : "";
}

// Of each owner, the bytes and the number of blocks that it holds at a sample.
function heldAt(memory, sample) {
  const owners = memory.owners ?? [], bytes = new Float64Array(owners.length), counts = new Uint32Array(owners.length);
  const blocks = memory.blocks;
  for (let i = 0; blocks && i < blocks.first.length; ++i) {
    if (blocks.first[i] <= sample && sample < blocks.end[i]) bytes[blocks.owner[i]] += blocks.bytes[i], ++counts[blocks.owner[i]];
  }
  return {owners, bytes, counts};
}

// The pool as one strip, cut into rows: segments one behind the other, the oldest first. Free blocks are empty.
class PoolMap {
  constructor(run, index) {
    this.run = run;
    this.canvas = element("canvas", {role: "img", "aria-label": `segments and blocks of the allocator, ${run.title}`});
    this.words = element("p", {class: "sub", id: "pool-words-" + index});
    this.root = element("div", {}, element("p", {}, run.title), this.canvas, this.words);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
  }

  draw(memory, sample) {
    const width = this.root.clientWidth, asked = [memory.rank, sample, width, theme.colour("page")].join();
    if (asked === this.asked || width === 0) return;
    this.asked = asked, this.memory = memory;
    this.pieces = piecesAt(memory, sample);
    const total = this.pieces.at(-1)?.end ?? 0, segments = new Set(this.pieces.map((p) => p.segment)).size;
    this.rows = Math.max(1, Math.min(MAP_ROWS, segments)), this.width = width, this.perRow = total / this.rows;
    const ratio = window.devicePixelRatio || 1, height = this.rows * (MAP_ROW + MAP_GAP);
    Object.assign(this.canvas, {width: Math.round(width * ratio), height: Math.round(height * ratio)});
    this.canvas.style.width = width + "px", this.canvas.style.height = height + "px";
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const piece of this.pieces) this.fill(context, piece);
    this.tell(segments);
  }

  fill(context, piece) {
    for (let at = piece.begin; at < piece.end;) {
      const row = Math.min(this.rows - 1, Math.floor(at / this.perRow));
      const until = row === this.rows - 1 ? piece.end : Math.min(piece.end, (row + 1) * this.perRow);
      if (until <= at) return;
      const x = (at / this.perRow - row) * this.width, y = row * (MAP_ROW + MAP_GAP);
      const wide = Math.max(0.5, (until - at) / this.perRow * this.width);
      context.fillStyle = theme.colour(piece.owner ? CATEGORY_COLOURS[piece.owner.category] ?? "grey" : "rule");
      context.fillRect(x, y, wide, MAP_ROW);
      context.fillStyle = theme.colour(piece.opens && at === piece.begin ? "ink" : "page");
      context.fillRect(x, y, Math.min(1, wide / 3), MAP_ROW);
      at = until;
    }
  }

  tell(segments) {
    const free = this.pieces.filter((p) => !p.owner), size = (p) => p.end - p.begin, bytes = (of) => d3.sum(of, size);
    const largest = d3.max(free, size) ?? 0;
    Object.assign(this.words.dataset, {segments, free: bytes(free), freeBlocks: free.length, largest});
    this.words.textContent = this.memory.blocks
      ? `${counted(segments, "segment")} (dark lines: where one begins), ${bytesText(bytes(this.pieces))}; ${counted(free.length, "free block")} ` +
        `of ${bytesText(bytes(free))} (light), the largest of ${bytesText(largest)}. Segments of requests up to 1 MiB serve no larger ones.`
      : "The blocks of this run were not recorded.";
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), row = Math.floor((event.clientY - box.top) / (MAP_ROW + MAP_GAP));
    const at = (row + (event.clientX - box.left) / this.width) * this.perRow;
    const piece = this.pieces?.find((p) => p.begin <= at && at < p.end);
    if (!piece) return tip.hide();
    const where = `segment ${piece.segment}, from byte ${countText(piece.offset)}`, size = bytesText(piece.end - piece.begin);
    if (!piece.owner) return tip.show(event, [`free: ${size}`, where]);
    tip.show(event, [`${named("module", piece.owner.module)}: ${size}`, piece.owner.tensor, `${piece.owner.category.replace("_", " ")}, ${named("pass", piece.owner.pass)}`, where]);
  }
}

// Blocks and what is free between them, as stretches [begin, end) of the strip.
function piecesAt(memory, sample) {
  const {blocks, segments} = memory, bySegment = new Map(), pieces = [];
  if (!blocks) return pieces;
  const present = (lives) => d3.range(lives.first.length).filter((i) => lives.first[i] <= sample && sample < lives.end[i]);
  for (const i of present(segments)) bySegment.set(segments.number[i], {bytes: segments.bytes[i], blocks: []});
  for (const i of present(blocks)) bySegment.get(blocks.segment[i]).blocks.push(i);
  let begin = 0;
  for (const [segment, {bytes, blocks: own}] of bySegment) {
    let offset = 0;
    const add = (until, owner) => {
      if (until > offset) pieces.push({segment, offset, opens: offset === 0, begin: begin + offset, end: begin + until, owner});
      offset = until;
    };
    for (const i of d3.sort(own, (k) => blocks.offset[k])) add(blocks.offset[i]), add(blocks.offset[i] + blocks.bytes[i], memory.owners[blocks.owner[i]]);
    add(bytes);
    begin += bytes;
  }
  return pieces;
}
