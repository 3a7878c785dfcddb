// Finds the fastest layout that fits: branch and bound over the whole space.
//
// All layouts are screened: legality, a lower bound on memory, a quick lower bound on time (bound.h). From then on the
// layout with the lowest bound comes next. If a better bound of it is not known yet, that is found, and the layout
// waits for its turn again; else it is simulated. The search ends when no bound is below the best simulated time: then
// no other layout can be faster, since a bound is never above what the simulation would say. With a gap, it ends when
// none can be faster by more than that share; with a budget, in any case when that time is over. If half of the budget
// is over and nothing was simulated yet, the layout that comes next is simulated at once, so that there is one to name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/plan/journal.h"
#include "experiments/program/plan/pool.h"
#include "experiments/program/plan/space.h"
#include "experiments/program/plan/worker.h"

namespace twofold::plan {

struct SearchOptions {
  double gap = 0.01;        // share of the best time; 0: the best `top` are proven
  int64_t top = 1;          // with a gap of 0, so many are found
  double budget = 0;        // seconds, screening included; 0: as long as it takes
  bool exhaustive = false;  // simulate every legal layout, without bounds
  std::function<void(const std::string& doing)> progress = nullptr;
  std::function<double()> clock = nullptr;  // seconds since any moment, for the budget; null: the steady clock
};

// A legal layout, and what became of it.
struct Judged {
  enum Fate { kDoesNotFit, kSlower, kOpen, kSimulated };
  Layout layout;
  Fate fate = kOpen;
  double least_seconds = 0;  // the best lower bound that was found of its step time
  int64_t least_bytes = 0;   // the lower bound of its memory
};

struct Plan {
  Space space;
  std::vector<Simulated> ranked;  // those that fit, the fastest first; of equals, the one that comes first in the space
  std::vector<Simulated> too_large;  // simulated, and ran out of memory
  std::vector<Simulated> failed;     // nothing is known of these
  int64_t screened_out = 0;          // legal layouts that do not fit, by a bound on memory
  int64_t slower = 0;                // that cannot beat the best (by more than the gap)
  int64_t open = 0;                  // of which nothing is proven, where the budget ended
  double least = 0;                  // no layout is faster than this; the best time itself if that is proven
  bool proven = false;               // the gap was reached, and no simulation failed
  // Of those that a bound on memory left out, the ones that nearly fit: the fewest bytes, at most kNearly times the
  // device's.
  std::vector<Screened> nearly;
  std::optional<Screened> closest;  // of all that a bound on memory left out, the one with the fewest bytes
  int64_t bounded = 0;              // layouts of which better bounds were found
  std::vector<Judged> judged;       // all legal layouts, in the order of the space
  // Seconds of a core that this search took for each of its three kinds of work. What a journal knew costs nothing.
  struct Costs {
    double screening = 0, bounds = 0, simulations = 0;
    int64_t simulated = 0;  // layouts, here
  };
  Costs costs;
};
inline constexpr double kNearly = 1.25;

// `device`: a rank's memory; 0: not bounded. The pool's processes run Worker::Do. `journal` may be null.
absl::StatusOr<Plan> Search(const Question& question, Bytes device, Pool& pool, Journal* journal,
                            const SearchOptions& options);

int64_t SimulationsOf(const Plan& plan);
// The shortest step time of all simulated layouts that fit; infinity if there is none.
double FastestOf(const Plan& plan);
// Of simulated layouts in the order of their times, puts the plainest first of those that may be as fast as the first,
// as far as extended and folded simulations tell (Simulated::Off). The plainest is the one that offloads least, then
// one that does not recompute. So the first may be slower than the fastest by what such times may be off.
void PutPlainestFirst(std::vector<Simulated>& ranked);

// "of 84,312 legal layouts 61,020 do not fit, 23,180 cannot beat 7.41 s, 112 were simulated"
std::string ProofOf(const Plan& plan, const SearchOptions& options);

}  // namespace twofold::plan
