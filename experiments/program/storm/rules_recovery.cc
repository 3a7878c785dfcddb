// Where the state of a generation must come from.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "core/base/strings.h"
#include "experiments/program/storm/rules.h"

namespace twofold::storm {
namespace {

// Ranks that hold the same piece of the state while `dp` replicas train.
int64_t HoldersOf(const spec::Spec& spec, int64_t dp) {
  const spec::Parallel& p = spec.parallel();
  if (p.sharding() == spec::Parallel::NO_SHARD) return dp;
  if (p.sharding() == spec::Parallel::HYBRID_SHARD) return dp / p.shard_group();
  return spec.train().elastic().shard_copies() > 0 ? std::min<int64_t>(dp, 2) : 1;
}

}  // namespace

void JudgeRecoveries(const Course& course, Findings& findings) {
  if (course.spec.train().elastic().on_loss() == spec::Elastic::CHECKPOINT) return;
  std::map<int, int64_t> reached;  // by generation: steps done at its end
  for (const Seen& seen : course.evidence.seen) {
    if (seen.what == Seen::kDone) reached[seen.generation] = std::max(reached[seen.generation], seen.steps);
  }
  for (auto next = course.members.begin(); next != course.members.end(); ++next) {
    if (next == course.members.begin()) continue;
    const auto& [before, had] = *std::prev(next);
    const auto& [generation, members] = *next;
    const std::string& from = course.from.at(generation);
    const int64_t done = reached[before], first = course.first_step.at(generation);
    if (from == "peers" || done <= first) continue;
    const auto is_gone = [&](int m) { return std::find(members.begin(), members.end(), m) == members.end(); };
    const int64_t gone = std::count_if(had.begin(), had.end(), is_gone);
    const int64_t holders = HoldersOf(course.spec, course.dp.at(before));
    if (gone < holders) {
      findings.Add("recovery", StrCat("generation ", generation, " goes back from step ", done, " to step ", first,
                                      " (", from, "), though only ", gone, " of ", had.size(),
                                      " members are gone, and ", holders, " held each piece of the state"));
    } else if (from == "start" && !course.spec.train().has_checkpoint()) {
      findings.Add("recovery", StrCat("generation ", generation, " begins anew, though ", done,
                                      " steps were done; without a checkpoint the run ends"));
    }
  }
}

}  // namespace twofold::storm
