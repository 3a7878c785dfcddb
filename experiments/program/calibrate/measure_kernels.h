// Times every case on one rank, with all ranks at the same case at the same time.
//
// Ranks of a job share caches, memory and clock rate, so a kernel is timed while the other ranks run it too. Cases take
// turns in rounds, so that a disturbance of the machine hits one round of many kernels and not all rounds of one
// kernel. The rounds are split into parts, and other things are measured between the parts: the machine's speed drifts,
// and so all measurements drift alike. A sample during which a rank waited for a processor used by other work is
// repeated at the end of its round (disturbance.h). One fixed kernel is timed before and after each part; it shows how
// the processors' speed drifts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "experiments/program/calibrate/cases.h"
#include "experiments/program/calibrate/disturbance.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

inline constexpr Seconds kSample = Seconds(300e-6);  // the shortest sample: as many calls as fill it, at most 100

// Times one call of each case, without first touches: the slowest rank's time, the same on every rank. Packed, one row
// per case.
std::string TryKernels(RankContext& ctx, const std::vector<Case>& cases);

// How often to sample each case, given the time of one call: all cases get equal time, but each at least one and at
// most `most` samples, and together no longer than `budget` if possible.
std::vector<int> RoundsWithin(const std::vector<double>& seconds, Seconds budget, int most);

struct KernelPlan {
  std::vector<Case> cases;
  std::vector<double> seconds;  // of one call, by case, from TryKernels
  std::vector<int> rounds;      // by case
  int part = 0, parts = 1;      // which of the parts that share these rounds
  Seconds repeats;              // of this part: budget for repeated samples
  // Seconds that a rank's thread has waited for a processor so far, called on that thread; null: the operating system's
  // count.
  std::function<double(int rank)> waited = nullptr;
};

// Returns Pack(samples): one row per case, one sample per round of this part. A sample is the mean of as many calls as
// fill kSample. Then follow these rows:
struct KernelRows {
  static constexpr size_t kDisturbance = 0;  // Disturbance: seen.wall, seen.held, kept.wall, kept.held, repeated
  static constexpr size_t kFixed = 1;        // on rank 0: seconds of the fixed kernel, the slowest rank's
  static constexpr size_t kMore = 2;
};
std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan);

// Removes those rows from `samples` of all ranks. Returns the total disturbance and the fixed kernel's times.
struct KernelExtras {
  Disturbance disturbance;
  std::vector<double> fixed;
};
KernelExtras TakeExtras(Samples& samples);

// How many of the `rounds` rounds of case number `i` part `part` of `parts` runs: as even as possible.
int RoundsOfPart(int rounds, size_t i, int part, int parts);

}  // namespace twofold::calibrate
