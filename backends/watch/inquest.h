// Why a run ends: from what the ranks say once one of them is in trouble.
//
// A pure function of the evidence, so that every finding can be tested without a process. The order of findings: ranks whose
// calls differ, then a lost rank, then what a rank reported itself, then whom a time-out was waiting for. A difference comes
// first because the rest may be its consequences (an MPI library that gets mismatched calls may hang, fail or crash).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/proto/control.pb.h"

namespace twofold::watch {

// What is known of one rank.
struct Witness {
  bool lost = false;
  std::string how = "has ended";  // it was lost
  std::string process;      // "process 4711 on node3"
  std::string last_doing;   // as it said last, before the inquest
  std::optional<control::Answer> answer;
};

struct Accusation {
  int rank = 0;
  std::optional<control::Trouble> trouble;  // none: `rank` is lost, or calls differ
};

// `witnesses` by rank in the world. `timeout_s` is quoted.
control::Verdict Decide(const std::vector<Witness>& witnesses, const Accusation& accusation, double timeout_s);

}  // namespace twofold::watch
