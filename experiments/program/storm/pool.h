// Processes that judge schedules, one after another.
//
// They are forked from this one, which is to have one thread, and so have all that it has loaded. Each forks again for
// every run. A process that does not answer in time is killed and replaced: that breaks the rule no-hang.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/storm.pb.h"

namespace twofold::storm {

class Pool {
 public:
  // `judge` runs in process number `process`, from 0 on.
  using JudgeOne = std::function<Verdict(int process, const Schedule&)>;
  Pool(int processes, double guard_s, JudgeOne judge);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Judges what `next` yields until that is nothing, on all processes, and tells each verdict. Stops early, without the
  // verdicts of those in progress, if `done` returns false.
  using Next = std::function<std::optional<Schedule>()>;
  using Done = std::function<bool(const Schedule&, Verdict)>;
  absl::Status Run(const Next& next, const Done& done);
  Verdict One(const Schedule& schedule);

 private:
  struct Process;
  absl::Status Start(Process& process);
  void End(Process& process);

  const double guard_s_;
  const JudgeOne judge_;
  std::vector<Process> processes_;
};

}  // namespace twofold::storm
