// The members of an elastic run, generation by generation.
//
// Generation 1 is the ranks that began the run. The next one is committed when all who are awaited have asked for it,
// or the patience of the least patient is over. Its members are those who asked, in the order of their numbers, then
// the newcomers, in the order in which they came. A member is awaited unless it has asked or is out: lost, gone or
// finished.
//
// A state machine without a clock; it is told the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "backends/control/control.pb.h"

namespace twofold::control {

// A generation's number in messages: as in reports (core/run/membership.h), which count from 0.
inline int Reported(int generation) { return generation - 1; }

class Generations {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Start(int world_size);  // generation 1
  int number() const { return number_; }
  const std::vector<int>& members() const { return members_; }  // by rank
  bool Has(int member) const { return std::find(members_.begin(), members_.end(), member) != members_.end(); }

  // FAILED_PRECONDITION, and nothing changes: `member` is not in that generation, or has nothing left to ask for.
  absl::Status Ask(int member, const Reform& reform, Time now);
  void Wait(int newcomer);
  void Remove(int member);  // it is out, or waits no longer
  bool HasAsked(int member) const { return asked_.contains(member); }
  bool IsWaiting(int newcomer) const {
    return std::find(newcomers_.begin(), newcomers_.end(), newcomer) != newcomers_.end();
  }
  int waiting() const { return static_cast<int>(newcomers_.size()); }

  enum class Step { kWait, kCommitted, kTooFew };
  // Commits the next generation if its time has come. kTooFew: the patience is over.
  Step Advance(Time now);
  const std::vector<int>& late() const { return late_; }  // members who had not asked at the last commit, or too few
  int asked() const { return static_cast<int>(asked_.size()); }
  int least() const { return least_; }  // members that the next generation needs
  double patience_s() const { return patience_s_; }

 private:
  void Commit();

  int number_ = 0;
  std::vector<int> members_, late_, newcomers_;
  std::set<int> asked_, out_;
  std::optional<Time> deadline_;
  int least_ = 1;
  double patience_s_ = 0;
};

}  // namespace twofold::control
