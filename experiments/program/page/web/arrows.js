"use strict";
// Which span another one waited for, among the ranks that are drawn.
//
// A message: a send and a receive of two ranks that differ in their pipeline stage alone, of one micro-batch and
// direction. Sends carry the label of the action that made the message, receives that of the action which needs it.
// A collective: spans of one name and size that end together on streams of one name. The rank that came last is the one
// whose own waiting is the shortest; the others waited for it.

function stageOf(run, rank) { return run.rankOf.get(rank)?.place; }

function sameColumn(a, b) {
  return a && b && ["dp", "cp", "tp"].every((axis) => a[axis] === b[axis]);
}

// The label of the action that receives what the action `label` of `stage` sends, and the stage that it is sent to.
function receiverOf(label, stage, stages) {
  const parts = /^([FBI])(\d+)(?:\.(\d+))?$/.exec(label);
  if (!parts) return null;
  const forward = parts[1] === "F", to = forward ? stage + 1 : stage - 1;
  if (to >= 0 && to < stages) return {stage: to, label};
  if (parts[3] === undefined) return null;
  const chunk = Number(parts[3]) + (forward ? 1 : -1);
  return chunk < 0 ? null : {stage: (to + stages) % stages, label: `${parts[1]}${parts[2]}.${chunk}`};
}

function *spansIn(lane, from, to) {
  let i = Math.max(0, d3.bisectRight(lane.start, from) - 1);
  for (; i < lane.count && lane.start[i] < to; ++i) {
    if (lane.end[i] >= from) yield i;
  }
}

// At most `most` arrows of lanes in the map `lanes`: {from, to: {lane, index}, start, end}.
function arrowsIn(lanes, from, to, most) {
  const arrows = [];
  const communication = [...lanes.keys()].filter((lane) => lane.stream !== "compute");
  // Too many to be told apart: zoom in.
  if (d3.sum(communication, (lane) => d3.bisectLeft(lane.start, to) - d3.bisectLeft(lane.start, from)) > 5 * most) return arrows;
  const receives = new Map(), meetings = new Map();
  for (const lane of communication) {
    for (const i of spansIn(lane, from, to)) {
      const name = lane.run.names[lane.name[i]], label = lane.run.labels[lane.label[i]];
      if (name === "recv") {
        const place = stageOf(lane.run, lane.rank);
        if (place) pushTo(receives, `${lane.run.index} ${place.pp} ${place.dp} ${place.cp} ${place.tp} ${label}`, {lane, index: i});
      } else if (name !== "send") {
        pushTo(meetings, `${lane.run.index} ${lane.stream} ${name} ${lane.bytes[i]} ${Math.round(lane.end[i] * 1e8)}`, {lane, index: i});
      }
    }
  }
  for (const lane of communication) {
    for (const i of spansIn(lane, from, to)) {
      if (lane.run.names[lane.name[i]] !== "send") continue;
      const place = stageOf(lane.run, lane.rank), label = lane.run.labels[lane.label[i]];
      const there = place && label && receiverOf(label, place.pp, lane.run.stages);
      if (!there) continue;
      const found = receives.get(`${lane.run.index} ${there.stage} ${place.dp} ${place.cp} ${place.tp} ${there.label}`) ?? [];
      const to_span = found.find((r) => r.lane.end[r.index] >= lane.start[i] && r.lane.bytes[r.index] === lane.bytes[i]);
      if (to_span) arrows.push({from: {lane, index: i}, to: to_span, start: lane.start[i], end: to_span.lane.end[to_span.index]});
    }
  }
  for (const together of meetings.values()) {
    if (together.length < 2) continue;
    const last = together.reduce((a, b) => a.lane.waiting[a.index] <= b.lane.waiting[b.index] ? a : b);
    for (const span of together) {
      const waited = span.lane.waiting[span.index];
      if (span === last || waited <= last.lane.waiting[last.index]) continue;
      const begins = span.lane.start[span.index] + waited * 1e-9;
      arrows.push({from: last, to: span, start: last.lane.start[last.index], end: begins});
    }
  }
  return arrows.length > most ? [] : arrows;
}

function pushTo(map, key, value) {
  const list = map.get(key);
  list ? list.push(value) : map.set(key, [value]);
}
