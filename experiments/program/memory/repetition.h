// Which steps of a run its replay does: those that find the memory as no step before them did.
//
// A step makes the same requests whenever it runs, and where blocks are put depends on requests alone: a step that finds
// every block where an earlier one found it leaves every block where that one left it. So once steps find what one before
// them found (the third, as a rule, what the second found), all up to the next that is followed by something else (a
// validation, a checkpoint) go round in that circle, and whole rounds are left out; and so are rounds of whole cycles of
// these. What is left out changes no peak.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold {

class Repetition {
 public:
  explicit Repetition(const spec::Train& train);

  // To be asked before every step: the one to be done next. Steps are numbered from 0; `found` is a fingerprint of all
  // memory (CachingAllocator::Fingerprint).
  int64_t Next(int64_t step, uint64_t found);
  int64_t done() const { return done_; }  // steps so far, the one that Next named last included

  // False: so many steps were done without going round, and those up to the last were left out nevertheless.
  bool settled() const { return settled_; }

 private:
  static constexpr int64_t kMost = 2000;    // steps done at most
  using Seen = std::map<uint64_t, int64_t>;  // what was found, and by which step

  int64_t EndOfStretch(int64_t step) const;  // the first step from `step` on that something else follows
  // Leaves out rounds from `step` on, but not `end`.
  static int64_t LeaveOut(int64_t step, int64_t end, uint64_t found, Seen& seen);

  const int64_t steps_;
  std::vector<int64_t> every_;  // what else follows every so many steps
  int64_t cycle_ = 1;           // steps after which all of these begin anew; more than steps_: never
  Seen stretch_, cycles_;       // at the steps of this stretch, and where cycles began
  int64_t done_ = 0;
  bool settled_ = true;
};

}  // namespace twofold
