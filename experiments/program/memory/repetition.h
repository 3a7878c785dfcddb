// Chooses the steps of a run that its replay executes: those that start in a state of memory that no earlier step
// started in.
//
// Every step makes the same requests, and the placement of blocks depends on requests alone. So if a step starts with
// every block where an earlier step found it, it leaves every block where that step left it. Once a step starts in the
// state of an earlier one (as a rule the third step, in the state of the second), steps repeat in a cycle until the
// next step that is followed by something else (a validation, a checkpoint, an outer step), and whole rounds of the
// cycle are skipped. Whole rounds of these larger cycles are skipped likewise. Skipped steps change no peak.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold {

class Repetition {
 public:
  explicit Repetition(const spec::Train& train);

  // Called before every step; returns the step to execute next. Steps are numbered from 0; `found` is a fingerprint of
  // all memory (CachingAllocator::Fingerprint).
  int64_t Next(int64_t step, uint64_t found);
  int64_t done() const { return done_; }  // steps executed so far, including the last one that Next returned

  // False if kMost steps were executed without a repetition and the rest was skipped nevertheless.
  bool settled() const { return settled_; }

 private:
  static constexpr int64_t kMost = 2000;     // steps executed at most
  using Seen = std::map<uint64_t, int64_t>;  // fingerprint, and the step that found it

  int64_t EndOfStretch(int64_t step) const;  // the first step from `step` on that is followed by something else
  // Skips rounds from `step` on, but never `end`.
  static int64_t LeaveOut(int64_t step, int64_t end, uint64_t found, Seen& seen);

  const int64_t steps_;
  // Something else follows the first n steps, for every n whose remainder by `every` is `at`.
  struct Event {
    int64_t every, at = 0;
  };
  void AddOuterSteps(const spec::LocalUpdate& local);
  std::vector<Event> events_;
  int64_t cycle_ = 1;      // steps after which all of these start again; more than steps_: never
  Seen stretch_, cycles_;  // seen at the steps of this stretch, and at the starts of cycles
  int64_t done_ = 0;
  bool settled_ = true;
};

}  // namespace twofold
