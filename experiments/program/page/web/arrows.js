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

// Of communication spans {lane, index}: receives by run, place and label; collectives that met, by what they have in common.
class Meetings {
  constructor() { this.receives = new Map(), this.meetings = new Map(); }

  add(lane, i) {
    const name = lane.run.names[lane.name[i]], place = stageOf(lane.run, lane.rank);
    if (name === "recv") {
      if (place) pushTo(this.receives, this.columnOf(lane, place, place.pp, lane.run.labels[lane.label[i]]), {lane, index: i});
    } else if (name !== "send") {
      pushTo(this.meetings, this.meetingOf(lane, i), {lane, index: i});
    }
  }

  columnOf(lane, place, stage, label) { return `${lane.run.index} ${stage} ${place.dp} ${place.cp} ${place.tp} ${label}`; }
  meetingOf(lane, i) { return `${lane.run.index} ${lane.stream} ${lane.run.names[lane.name[i]]} ${lane.bytes[i]} ${Math.round(lane.end[i] * 1e8)}`; }

  // The receive of a send; undefined: its rank is not there.
  receiveOf(lane, i) {
    const place = stageOf(lane.run, lane.rank), label = lane.run.labels[lane.label[i]];
    const there = place && label && receiverOf(label, place.pp, lane.run.stages);
    const found = there && this.receives.get(this.columnOf(lane, place, there.stage, there.label));
    return found?.find((r) => r.lane.end[r.index] >= lane.start[i] && r.lane.bytes[r.index] === lane.bytes[i]);
  }

  // Of the spans that met in a collective with this one, the one that came last.
  lastOf(lane, i) {
    const together = this.meetings.get(this.meetingOf(lane, i)) ?? [{lane, index: i}];
    return together.reduce((a, b) => a.lane.waiting[a.index] <= b.lane.waiting[b.index] ? a : b);
  }
}

// At most `most` arrows of lanes in the map `lanes`: {from, to: {lane, index}, start, end}.
function arrowsIn(lanes, from, to, most) {
  const arrows = [], meetings = new Meetings();
  const communication = [...lanes.keys()].filter((lane) => lane.stream !== "compute");
  // Too many to be told apart: zoom in.
  if (d3.sum(communication, (lane) => d3.bisectLeft(lane.start, to) - d3.bisectLeft(lane.start, from)) > 5 * most) return arrows;
  for (const lane of communication) for (const i of spansIn(lane, from, to)) meetings.add(lane, i);
  for (const lane of communication) {
    for (const i of spansIn(lane, from, to)) {
      const receive = lane.run.names[lane.name[i]] === "send" && meetings.receiveOf(lane, i);
      if (receive) arrows.push({from: {lane, index: i}, to: receive, start: lane.start[i], end: receive.lane.end[receive.index]});
    }
  }
  for (const together of meetings.meetings.values()) {
    const last = meetings.lastOf(together[0].lane, together[0].index);
    for (const span of together) {
      const waited = span.lane.waiting[span.index];
      if (waited <= last.lane.waiting[last.index]) continue;
      arrows.push({from: last, to: span, start: last.lane.start[last.index], end: span.lane.start[span.index] + waited * 1e-9});
    }
  }
  return arrows.length > most ? [] : arrows;
}

function pushTo(map, key, value) {
  const list = map.get(key);
  list ? list.push(value) : map.set(key, [value]);
}
