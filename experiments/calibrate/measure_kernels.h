// Times every case on one rank, with all ranks at the same case at the same time.
//
// Ranks of a job share caches, memory and clock rate, so a kernel is timed while the other ranks run it too. Cases take
// turns in rounds, so that a disturbance of the machine hits one round of many kernels and not all rounds of one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "experiments/calibrate/cases.h"

namespace twofold::calibrate {

struct KernelPlan {
  std::vector<Case> cases;
  int most_rounds = 9, least_rounds = 3;
  Seconds budget;  // rounds end when the next one would pass it, after the least
  std::function<void(int round, int rounds, Seconds left)> progress;  // after each round, on rank 0; may be empty
};

// Returns Pack(samples): a row a case, a sample a round: the mean of as many calls as fill kSample.
inline constexpr Seconds kSample = Seconds(300e-6);
std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan);

}  // namespace twofold::calibrate
