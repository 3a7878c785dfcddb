// What the actions of a replayed rank (rank_times.h) come to, for bounds on the step of which they are a part.
#pragma once

#include <vector>

#include "experiments/program/plan/pipeline_bound.h"
#include "experiments/program/plan/rank_times.h"

namespace twofold::plan {

// By chunk: what actions took, whatever they came after: the least of each kind. A step's first backward pass, which
// writes gradients, is apart from the others, which add to them. (GPipe's is that of the last micro-batch.)
std::vector<ChunkTimes> LeastOf(const RankTimes& rank, int chunks, double RankTimes::OfAction::*seconds);

// What communication beside actions costs, the most of each kind.
ChunkTimes MostSlowed(const RankTimes& rank);

// Seconds that a step of `whole` micro-batches takes at least, of which `few` were replayed. From 3 on, those between
// the first and the last one stand for those that were not.
//
// The host launches one operation after another, and transfers in either direction follow each other: the longest.
double OneAfterAnother(const RankTimes& rank, int few, int whole);
// What crosses a link takes no less than its bandwidth allows, whatever it is and in whatever order: the busiest.
double BusiestLink(const RankTimes& rank, int few, int whole);

// The device may wait for the host, although that has less to do.
bool HostIsBusy(const RankTimes& rank);

}  // namespace twofold::plan
