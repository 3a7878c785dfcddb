"use strict";
// The critical path of a run, through the ranks that were traced: a chain of spans from the end of the trace to its
// beginning, each of which could only begin when the one before it had ended.
//
//   before a compute span       what ended last on its rank: the compute span before it, or the communication that compute
//                               stood still for
//   before a receive            the send of its message
//   before a collective         its span on the rank that came last; before that, or before a send, what ended last on its rank, likewise
// Where no span ends at the beginning of another, the time between belongs to nobody: the host, or a rank that was not traced.

const MEETS = 2e-9;  // seconds; times are rounded to nanoseconds

// The last span of a lane that ends by `time`; -1: none. Spans of a lane do not overlap.
function lastBy(lane, time) { return lane ? d3.bisectRight(lane.end, time + MEETS) - 1 : -1; }

class CriticalPath {
  constructor(run) {
    this.meetings = new Meetings(), this.sends = new Map(), this.streams = new Map();
    for (const lane of run.lanes) pushTo(this.streams, lane.rank, lane);
    const communication = run.lanes.filter((lane) => lane.stream !== "compute");
    for (const lane of communication) for (let i = 0; i < lane.count; ++i) this.meetings.add(lane, i);
    for (const lane of communication) {
      for (let i = 0; i < lane.count; ++i) {
        const receive = run.names[lane.name[i]] === "send" && this.meetings.receiveOf(lane, i);
        if (receive) this.sends.set(`${run.lanes.indexOf(receive.lane)} ${receive.index}`, {lane, index: i});
      }
    }
    this.run = run;
    this.spans = this.walk();
  }

  // What ended last on a rank by `time`: of communication, only what compute stood still for.
  lastOn(rank, time) {
    let best = null;
    for (const lane of this.streams.get(rank) ?? []) {
      let i = lastBy(lane, time);
      if (lane.stream !== "compute") while (i >= 0 && lane.exposed[i] === 0 && (best === null || lane.end[i] > best.lane.end[best.index])) --i;
      if (i < 0 || (lane.stream !== "compute" && lane.exposed[i] === 0)) continue;
      if (best === null || lane.end[i] > best.lane.end[best.index]) best = {lane, index: i};
    }
    return best;
  }

  before({lane, index}) {
    const name = this.run.names[lane.name[index]];
    if (lane.stream === "compute") return this.lastOn(lane.rank, lane.start[index]);
    if (name === "recv") {
      const send = this.sends.get(`${this.run.lanes.indexOf(lane)} ${index}`);
      if (send) return send;
    }
    const last = name === "send" || name === "recv" ? {lane, index} : this.meetings.lastOf(lane, index);
    return last.lane === lane ? this.lastOn(lane.rank, lane.start[index]) : last;
  }

  walk() {
    let at = null;
    for (const lane of this.run.lanes)
      if (lane.count > 0 && (at === null || lane.end[lane.count - 1] > at.lane.end[at.index])) at = {lane, index: lane.count - 1};
    const path = [], seen = new Set();
    while (at !== null) {
      const key = `${this.run.lanes.indexOf(at.lane)} ${at.index}`;
      if (seen.has(key)) break;  // spans that met began and ended together
      seen.add(key), path.push(at);
      at = this.before(at);
    }
    return path.reverse();
  }

  // Seconds of the path by class: each instant counts once, for the span that ends last of those that are in it.
  shares() {
    const sums = new Map();
    let until = 0;
    for (const {lane, index} of this.spans) {
      const begin = Math.max(until, lane.start[index]), name = this.run.class_names[this.run.class_of[lane.name[index]]];
      const gap = lane.start[index] - until;
      if (gap > 0) sums.set("nobody", (sums.get("nobody") ?? 0) + gap);
      if (lane.end[index] > begin) sums.set(name, (sums.get(name) ?? 0) + lane.end[index] - begin);
      until = Math.max(until, lane.end[index]);
    }
    return sums;
  }
}
