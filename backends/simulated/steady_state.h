// The steady state of a simulated training: steps that would repeat the one before them are counted, not simulated.
//
// Nothing in a simulation is random, and its times depend on shapes, never on values. So if all ranks begin a step in
// the situation in which they began the step before, and both steps and those that follow do the same (which the caller
// of Begin states), then each of them takes exactly as long. Two situations are equal if for every rank these are:
//   * its time, relative to rank 0's, and what its streams have yet to do;
//   * where every block of its memory is (CachingAllocator::Fingerprint);
//   * its calls in flight, and what waits in its groups for other ranks;
//   * how long the step before took, and each kind of communication in it;
//   * when the simulation's next events are, relative to its time: those end latencies, and change the rates of flows.
// Not compared is how far other ranks are at that moment, and what SimGrid itself has in flight: where it divides the
// bandwidth, situations are only equal if nothing is. Times are equal if they differ by less than 1e-10 of a step: they
// are differences of a clock that has 53 bits.
//
// Ranks do not wait for each other here. So when the last of them has come, others may be steps ahead, and steps are
// counted from the first that none has begun. At most 65,536 are; a longer training simulates the others. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace twofold {

class SteadyState {
 public:
  explicit SteadyState(size_t ranks) : ranks_(ranks) {}

  // Of one rank, when it begins a step.
  struct Situation {
    double time;                   // of its host, in seconds
    std::vector<double> relative;  // other times, in seconds from then
    uint64_t rest;                 // a hash of what is no time
  };
  // Step `step` of rank `rank` begins (each rank calls this for each step that it runs), and the next `alike` steps do
  // the same as the one before, which is the same number for all ranks. Returns how many of these are counted.
  int64_t Begin(int rank, int64_t step, int64_t alike, Situation now);

  // The steps that were counted.
  struct Counted {
    int64_t first, steps;
  };
  const std::optional<Counted>& counted() const { return counted_; }

 private:
  using Situations = std::map<int, Situation>;  // by rank
  bool AreEqual(const Situations& before, const Situations& now) const;

  const size_t ranks_;
  std::map<int64_t, Situations> at_;  // by step: of the ranks that have begun it
  std::optional<Counted> counted_;
};

}  // namespace twofold
