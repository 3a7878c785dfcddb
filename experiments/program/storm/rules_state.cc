// What the members of a generation agree on, to the bit.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/storm/rules.h"

namespace twofold::storm {
namespace {

// The first state that a member shows in a generation is that with which it begins.
void JudgeBeginnings(const Course& course, Findings& findings) {
  std::map<int, const Seen*> first;           // by generation: of the first member that began
  std::map<std::pair<int, int>, bool> begun;  // by generation and member
  for (const Seen& seen : course.evidence.seen) {
    if (seen.what != Seen::kDone || !begun.try_emplace({seen.generation, seen.member}, true).second) continue;
    const Seen& other = *first.try_emplace(seen.generation, &seen).first->second;
    if (other.key != seen.key)
      findings.Add("agreement", StrCat("members ", other.member, " and ", seen.member,
                                       " see different members in generation ", seen.generation));
    if (other.steps != seen.steps) {
      findings.Add("agreement", StrCat("generation ", seen.generation, ": member ", other.member, " begins after ",
                                       other.steps, " steps, member ", seen.member, " after ", seen.steps));
    }
  }
}

}  // namespace

void JudgeState(const Course& course, Findings& findings) {
  JudgeBeginnings(course, findings);
  // Islands differ between outer steps, so only an undisturbed run says what they hold.
  const bool replicas = !course.spec.train().has_local_update();
  std::map<std::tuple<int, int64_t, uint64_t>, const Seen*> known;  // by generation, steps and piece
  std::set<int> of_training;
  for (const Seen& seen : course.evidence.seen) {
    if (seen.what == Seen::kDone) of_training.insert(seen.generation);
  }
  const std::vector<int> latest(of_training.begin(), of_training.end());
  for (const Seen& seen : course.evidence.seen) {
    if (seen.what != Seen::kPiece) continue;
    if (replicas) {
      const Seen& other = *known.try_emplace({seen.generation, seen.steps, seen.key}, &seen).first->second;
      if (other.value != seen.value) {
        findings.Add("parameters",
                     StrCat("generation ", seen.generation, ": members ", other.member, " and ", seen.member,
                            " hold different bits of the same piece after ", seen.steps, " steps"));
      }
    }
    if (seen.generation == 0) {
      const auto expected = course.reference.state.find({seen.steps, seen.key});
      if (expected != course.reference.state.end() && expected->second != seen.value) {
        findings.Add("parameters", StrCat("member ", seen.member, " holds other bits than in an undisturbed run after ",
                                          seen.steps, " steps"));
      }
      continue;
    }
    const auto from = course.from.find(seen.generation);
    const auto start = course.first_step.find(seen.generation);
    if (from == course.from.end() || from->second != "peers" || start->second != seen.steps) continue;
    // Of the generation that trained before, unless it did not show this step (it was finished in the recovery).
    const auto trained = std::lower_bound(latest.begin(), latest.end(), seen.generation);
    if (trained == latest.begin()) continue;
    const auto before = known.find({*std::prev(trained), seen.steps, seen.key});
    if (before == known.end() || before->second->value == seen.value) continue;
    findings.Add("parameters", StrCat("member ", seen.member, " begins generation ", seen.generation, " after ",
                                      seen.steps, " steps with other bits than member ", before->second->member,
                                      " had in generation ", *std::prev(trained)));
  }
}

}  // namespace twofold::storm
