// Times every case on one rank, with all ranks at the same case at the same time.
//
// Ranks of a job share caches, memory and clock rate, so a kernel is timed while the other ranks run it too. Cases take
// turns in rounds, so that a disturbance of the machine hits one round of many kernels and not all rounds of one. The rounds
// come in parts, between which other things are measured: the machine's speed drifts, and all that is measured drifts alike.
// A sample during which a rank waited for a processor, as other work had it, is taken again at the end of its round
// (disturbance.h). One kernel, always the same, is timed before and after each part: it shows how the processors' speed drifts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "experiments/program/calibrate/cases.h"
#include "experiments/program/calibrate/disturbance.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

inline constexpr Seconds kSample = Seconds(300e-6);  // the least that a sample lasts: as many calls as fill it, 100 at most

// What one call of each case takes, first touches left out; the slowest rank's, the same at every rank. Packed, a row a case.
std::string TryKernels(RankContext& ctx, const std::vector<Case>& cases);

// How often to sample each case, by what one call of it takes: all cases equally long, but each `most` times at most and
// once at least, together not longer than `budget` where that can be.
std::vector<int> RoundsWithin(const std::vector<double>& seconds, Seconds budget, int most);

struct KernelPlan {
  std::vector<Case> cases;
  std::vector<double> seconds;  // of a call, by case: from TryKernels
  std::vector<int> rounds;      // by case
  int part = 0, parts = 1;      // which of several parts that have these rounds together
  Seconds repeats;              // of this part: what may be spent on samples that are taken again
  // Seconds for which a rank's thread has waited for a processor so far, asked by that thread; null: the operating system's count.
  std::function<double(int rank)> waited = nullptr;
};

// Returns Pack(samples): a row a case, a sample a round of this part: the mean of as many calls as fill kSample. Then rows of:
struct KernelRows {
  static constexpr size_t kDisturbance = 0;  // Disturbance: seen.wall, seen.held, kept.wall, kept.held, repeated
  static constexpr size_t kFixed = 1;        // of rank 0: seconds of the fixed kernel, the slowest rank's
  static constexpr size_t kMore = 2;
};
std::string MeasureKernels(RankContext& ctx, const KernelPlan& plan);

// Takes those rows off `samples`, which are of all ranks: their disturbance together, and the fixed kernel's times.
struct KernelExtras {
  Disturbance disturbance;
  std::vector<double> fixed;
};
KernelExtras TakeExtras(Samples& samples);

// Of `rounds` rounds of case number `i`, those that part `part` of `parts` has: as even as can be.
int RoundsOfPart(int rounds, size_t i, int part, int parts);

}  // namespace twofold::calibrate
