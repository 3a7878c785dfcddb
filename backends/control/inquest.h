// Finds out why a run ends, from what the ranks report once one of them is in trouble.
//
// A pure function of the evidence, so that every finding can be tested without a process. Findings in order of
// priority: ranks whose calls differ, then a lost rank, then a failure that a rank reported itself, then the rank that
// a timed-out call was waiting for. A difference comes first because the others may be its consequences (an MPI library
// that gets mismatched calls may hang, fail or crash).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/control/control.pb.h"

namespace twofold::control {

// What is known about one rank.
struct Witness {
  bool takes_part = true;
  bool lost = false;
  std::string how = "has ended";  // how it was lost
  std::string process;            // "process 4711 on node3"
  std::string last_doing;         // its last report before the inquest
  std::optional<Answer> answer;   // to the inquest's question
};

struct Accusation {
  int rank = 0;
  std::optional<Trouble> trouble;  // none: `rank` is lost, or calls differ
};

Verdict VerdictOf(absl::StatusCode code, std::string message);

// `witnesses` is indexed by rank. `timeout_s` is quoted in messages.
Verdict Decide(const std::vector<Witness>& witnesses, const Accusation& accusation, double timeout_s);

}  // namespace twofold::control
