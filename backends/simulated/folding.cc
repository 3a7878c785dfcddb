#include "backends/simulated/folding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/simulated/rank_classes.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"

namespace twofold {

std::vector<int> Actors(const SimulationPlan& plan, bool fold) {
  if (fold) return StandIns(plan.stand_ins);
  std::vector<int> actors(static_cast<size_t>(plan.world_size));
  std::iota(actors.begin(), actors.end(), 0);
  return actors;
}

std::vector<int> ActorOfEach(const SimulationPlan& plan, const std::vector<int>& actors, bool fold) {
  std::vector<int> of(static_cast<size_t>(plan.world_size), -1);
  for (size_t a = 0; a < actors.size(); ++a) of[static_cast<size_t>(actors[a])] = static_cast<int>(a);
  if (!fold) return of;
  for (size_t r = 0; r < of.size(); ++r) of[r] = of[static_cast<size_t>(plan.stand_ins[r])];
  return of;
}

std::string DescribeFolding(const SimulationPlan& plan) {
  const std::vector<int> actors = Actors(plan, true);
  if (actors.size() == 1) return StrCat("ranks are folded: rank 0 stands for all ", plan.world_size);
  std::map<int, int> ranks;  // by stand-in: how many it stands for
  for (const int a : plan.stand_ins) ++ranks[a];
  const auto [least, most] =
      std::minmax_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  constexpr size_t kTold = 8;
  const std::string who =
      actors.size() <= kTold ? RankList(actors)
                             : StrCat(actors.size(), " ranks (", actors[0], ", ", actors[1], ", ", actors[2], ", ...)");
  const std::string many = StrCat(least->second, least->second < most->second ? StrCat(" to ", most->second) : "");
  return StrCat("ranks are folded: ", who, " stand for ", many, " each");
}

void AddWhatFoldingChanges(double most, SimulatedWorld& world, outcome::Outcome& outcome) {
  double late = 0;
  for (const auto& [stand_in, seconds] : world.late) late = std::max(late, seconds);
  const double share = late > 0 ? late / world.engine.now() : 0;
  if (share > most && world.folding_refused.empty())
    world.folding_refused = "ranks of one class end communications at different times";
  outcome.set_folding_refused(world.folding_refused);
  if (!world.folding_refused.empty()) outcome.mutable_kinds()->Add(world.kinds.of().begin(), world.kinds.of().end());
  for (const auto& [why, shorter] : world.unequal) {
    outcome.add_notes(StrCat("folded ranks differ: ", why, ", for which some take up to ",
                             absl::StrFormat("%.2g", 100 * shorter),
                             " % less time than others; the slowest is simulated and stands for all (`folding: OFF` "
                             "runs every rank)"));
  }
  if (!world.others_come_early.empty()) {
    outcome.add_notes(StrCat("folded ranks differ: ", world.others_come_early,
                             ", so fewer of them come late than the wait for the slowest device counts (`folding: OFF` "
                             "runs every rank)"));
  }
  if (world.late.empty()) return;
  outcome.set_folding_adds(share);
  const std::string differ = world.briefly.empty() ? "" : StrCat("differ (", absl::StrJoin(world.briefly, "; "), ")");
  const std::string apart = world.apart > 0  ? StrCat("ended the same communication up to ",
                                                      std::ceil(1000 * world.apart) / 10, " % of its time apart")
                            : differ.empty() ? "began messages around a ring at different times"
                                             : "";
  const std::string how = StrCat(differ, differ.empty() || apart.empty() ? "" : ", and ", apart);
  outcome.add_notes(StrCat("folded ranks ", how, "; the slowest rank's time is used for all, which adds at most ",
                           absl::StrFormat("%.2g", 100 * share),
                           " % to the time of the run, if it does not change who shares links with whom "
                           "(`folding: OFF` runs every rank)"));
}

}  // namespace twofold
