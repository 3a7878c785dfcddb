// How a run that has lost ranks goes on with those that are left: with which parallel.dp, and what else changes with
// it.
//
// The ranks are pp * cp * tp times dp, so dp becomes the greatest number for which they suffice and the spec is valid.
// train.elastic.batch says what stays the same: train.global_batch (KEEP_GLOBAL, the default), or the samples of a step
// and rank (KEEP_LOCAL; the learning rate is then scaled with dp, by the linear rule of Goyal et al. 2017). Whether a
// spec is valid is asked of LoadSpec alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/commands.h"

namespace twofold {

struct Continuation {
  int ranks = 0;
  int64_t dp = 0;
  std::vector<std::string> sets;  // further --set values for the run, "parallel.dp=2"
};

// `run`: as it first began. `ranks`: how many are left; `least_ranks`: with how many it goes on at least. If no dp is
// possible, the error says which were tried, and what is wrong with each.
absl::StatusOr<Continuation> ContinueWith(const RunWords& run, std::string_view fabric, int ranks, int least_ranks);

}  // namespace twofold
