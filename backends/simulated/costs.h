// What a simulation costs: time and memory of its parts, and how much there is of what it works on.
#pragma once

#include <optional>
#include <vector>

#include "core/proto/outcome.pb.h"
#include "core/run/fabric.h"
#include "sim/engine.h"
#include "sim/network.h"

namespace twofold {

// Of this process: the time, and what it has in memory.
struct Moment {
  double seconds = 0;  // steady clock
  int64_t bytes = 0;   // resident
};
Moment MomentNow();

// For the simulating process, at its end. `set_up`: when ranks began to train; nothing if they did not. `classes`: the
// number of ranks that were simulated for `ranks` ranks.
void AddCosts(const sim::Engine& engine, const sim::Network& network, const Moment& begin,
              const std::optional<Moment>& set_up, int classes, int ranks, outcome::Outcome& outcome);

// Adds those of one attempt: times and counts add up, of memory the most counts.
void AddCosts(const outcome::Outcome& of_one, std::vector<RunResult::Cost>& all);

}  // namespace twofold
