"use strict";
// Reads what the page carries: a gzip stream in base64 of
//   the length of a JSON text (4 bytes, little-endian), the text, and columns of numbers (LEB128; signed ones zigzag).
// page_data.cc writes it.

class Columns {
  constructor(bytes) { this.bytes = bytes, this.at = 0; }

  next() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale, scale *= 128;
    } while (byte > 127);
    return value;
  }

  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  column(count, Kind, read = () => this.next()) {
    const made = new Kind(count);
    for (let i = 0; i < count; ++i) made[i] = read();
    return made;
  }
}

async function readData() {
  const text = atob(document.getElementById("data").textContent.trim());
  const zipped = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) zipped[i] = text.charCodeAt(i);
  const unzipped = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(unzipped).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = new Columns(bytes.subarray(4 + length));
  for (const run of data.runs ?? []) readRun(run, columns);
  return data;
}

function readRun(run, columns) {
  run.lanes.forEach((lane, i) => readLane(run, lane, columns));
  run.rankOf = new Map(run.ranks.map((rank) => [rank.rank, rank]));
  for (const memory of run.memory) {
    memory.time = nanoseconds(columns, memory.count);
    memory.live = run.categories.map(() => running(columns, memory.count));
    memory.reserved = running(columns, memory.count);
    if (memory.owners) readBlocks(memory, columns);
  }
}

// Blocks of the allocator, and the segments that they are cut from: there at samples [first, end).
function readBlocks(memory, columns) {
  const lives = (count, names) => {
    const made = Object.fromEntries(names.map((name) => [name, columns.column(count, Float64Array)]));
    made.first = running(columns, count);
    made.end = columns.column(count, Float64Array).map((length, i) => made.first[i] + length);
    return made;
  };
  memory.blocks = lives(memory.blocks, ["owner", "bytes", "segment", "offset"]);
  memory.segments = lives(memory.segments, ["number", "bytes"]);
}

function nanoseconds(columns, count) {
  let at = 0;
  return columns.column(count, Float64Array, () => (at += columns.signed()) * 1e-9);
}

function running(columns, count) {
  let value = 0;
  return columns.column(count, Float64Array, () => (value += columns.signed()));
}

// Spans, by start. `busy[i]`: nanoseconds of the first i spans; `blocks`: of each 64 spans, nanoseconds by class.
const BLOCK = 64;

function readLane(run, lane, columns) {
  const n = lane.count;
  let ended = 0;
  lane.run = run;
  lane.start = new Float64Array(n), lane.end = new Float64Array(n), lane.busy = new Float64Array(n + 1);
  const starts = columns.column(n, Float64Array, () => columns.signed());
  const lengths = columns.column(n, Float64Array);
  for (let i = 0; i < n; ++i) {
    const start = ended + starts[i];
    ended = start + lengths[i];
    lane.start[i] = start * 1e-9, lane.end[i] = ended * 1e-9, lane.busy[i + 1] = lane.busy[i] + lengths[i];
  }
  lane.name = columns.column(n, Uint32Array), lane.label = columns.column(n, Uint32Array), lane.shape = columns.column(n, Uint32Array);
  lane.bytes = columns.column(n, Float64Array);
  lane.waiting = columns.column(n, Float64Array), lane.exposed = columns.column(n, Float64Array);
  const classes = run.class_names.length;
  lane.blocks = new Float64Array(Math.ceil(n / BLOCK) * classes);
  for (let i = 0; i < n; ++i) lane.blocks[Math.floor(i / BLOCK) * classes + run.class_of[lane.name[i]]] += lengths[i];
}
