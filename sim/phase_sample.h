// Which phases of a collective are timed, and for how many others each of them stands.
//
// Usually all are. But under adaptive routing the flows of a phase choose their paths one after another, and an
// all-to-all among n ranks has n - 1 phases of n flows that differ only in the distance between sender and receiver. If
// such a run of phases has more than kMostFlows flows, it is cut into strata of consecutive phases, of each of which
// one phase, drawn at random, stands for all: stratified sampling. The sum of its times, each as often as its stratum
// has phases, deviates from the whole run's by a standard error that the same sample shows (Cochran 1977, Sampling
// Techniques, chapter 5; with one unit of a stratum, by the differences of neighbouring ones: section 5A.12, collapsed
// strata). On whole clusters of the catalogue it is 0.2 to 2 % of the sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold::sim {

struct PhaseSample {
  size_t phase;
  double stands_for;  // so many phases, itself included
};

std::vector<PhaseSample> EveryPhase(const Schedule& schedule);

inline constexpr size_t kMostFlows = 1 << 17;  // of a run of alike phases: then all are timed
// So many strata, but fewer of phases of many flows, which differ less among themselves: no more flows than these.
inline constexpr size_t kManyStrata = 32, kManyFlows = 1 << 19;
inline constexpr size_t kLeastStrata = 2;  // whatever the number of flows
// A stratified sample of each run of more than `most` flows; the other phases all. By phase. Deterministic: the same
// arguments give the same phases. Phases are alike that have the same number of flows, the same rounds and seconds, and
// the same bytes in their first and last flow.
std::vector<PhaseSample> SamplePhases(const Schedule& schedule, uint64_t seed, size_t most = kMostFlows);

// The standard error, in seconds, of the sum of `seconds` (by sample), each as often as its sample stands for phases. 0
// if every phase stands for itself.
double StandardErrorOf(std::span<const PhaseSample> sample, std::span<const double> seconds);

}  // namespace twofold::sim
