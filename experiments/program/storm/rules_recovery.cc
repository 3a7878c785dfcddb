// Where the state of a generation must come from.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
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

// What had been announced when a generation began to train: steps by sequence number.
using Announced = std::map<uint64_t, int64_t>;
std::map<int, Announced> AnnouncedBefore(const Evidence& evidence) {
  Announced all;
  std::map<int, Announced> before;
  for (const Seen& seen : evidence.seen) {
    if (seen.what == Seen::kSaved) all[seen.value] = seen.steps;
    if (seen.what == Seen::kDone) before.try_emplace(seen.generation, all);
  }
  return before;
}

// The last checkpoint that was announced counts, unless it cannot be read.
void JudgeNewest(const Course& course, Findings& findings) {
  if (course.reads_failed) return;  // some rank may have been unable to read any of them
  const std::map<int, Announced> before = AnnouncedBefore(course.evidence);
  for (const auto& [generation, from] : course.from) {
    const auto announced = before.find(generation);
    if (generation == 0 || from == "peers" || announced == before.end()) continue;
    for (auto saved = announced->second.rbegin(); saved != announced->second.rend(); ++saved) {
      const std::string name = checkpoint::Named("", static_cast<int64_t>(saved->first), saved->second).final.substr(1);
      if (course.damaged_checkpoints.contains(name)) continue;
      if (const int64_t first = course.first_step.at(generation); first < saved->second) {
        findings.Add("recovery",
                     StrCat("generation ", generation, " goes on after step ", first, " (", from,
                            "), though the checkpoint ", name, " had been announced, and nothing has happened to it"));
      }
      break;
    }
  }
}

// Nobody goes on from steps that were never done.
void JudgeFirstSteps(const Course& course, const std::map<int, int64_t>& reached, Findings& findings) {
  for (const auto& [generation, first] : course.first_step) {
    int64_t done = 0;
    for (const auto& [before, steps] : reached) done = before < generation ? std::max(done, steps) : done;
    const int64_t most = done + (course.from.at(generation) == "peers" ? 1 : 0);  // the recovery may complete a step
    if (generation > 0 && first > most) {
      findings.Add("recovery", StrCat("generation ", generation, " goes on after step ", first, " (",
                                      course.from.at(generation), "), but only ", done, " had been done"));
    }
  }
}

}  // namespace

void JudgeRecoveries(const Course& course, Findings& findings) {
  JudgeNewest(course, findings);
  std::map<int, int64_t> reached;  // by generation: steps done at its end
  for (const Seen& seen : course.evidence.seen) {
    if (seen.what == Seen::kDone) reached[seen.generation] = std::max(reached[seen.generation], seen.steps);
  }
  JudgeFirstSteps(course, reached, findings);
  if (course.spec.train().elastic().on_loss() == spec::Elastic::CHECKPOINT) return;
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
