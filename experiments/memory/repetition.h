// Which steps of a run its replay does: those that find the memory as no step before them did.
//
// A step makes the same requests whenever it runs, and where blocks are put depends on requests alone: a step that finds
// every block where an earlier one found it, leaves every block where that one left it. So once a step has left the memory
// as it found it (the second, as a rule), all up to the next that is followed by something else (a validation, a
// checkpoint) repeat it; and once a whole cycle of these has, all cycles up to the last do. What is left out changes no peak.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

 private:
  bool Ends(int64_t step) const;            // a stretch of steps: something else follows it
  int64_t EndOfStretch(int64_t step) const;  // the first such step from `step` on

  const int64_t steps_;
  std::vector<int64_t> every_;  // what else follows every so many steps
  int64_t cycle_ = 1;           // steps after which all of these begin anew; more than steps_: never
  std::map<uint64_t, uint64_t> leaves_;     // what steps found, and what they left
  std::optional<uint64_t> found_;           // by the step done last, where nothing else followed it
  std::optional<uint64_t> at_cycle_;        // found at the last start of a cycle
  int64_t done_ = 0;
};

}  // namespace twofold
