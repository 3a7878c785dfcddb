// What is saved must be all that a run needs to go on.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "experiments/program/storm/rules.h"

namespace twofold::storm {
namespace {

using State = std::map<std::pair<int64_t, uint64_t>, uint64_t>;  // by steps and piece: the hash, where all agree

State StateOf(const Evidence& evidence, int generation) {
  State state;
  std::set<std::pair<int64_t, uint64_t>> differ;
  for (const Seen& seen : evidence.seen) {
    if (seen.what != Seen::kPiece || seen.generation != generation) continue;
    const auto [known, first] = state.try_emplace({seen.steps, seen.key}, seen.value);
    if (!first && known->second != seen.value) differ.insert(known->first);
  }
  for (const auto& key : differ) state.erase(key);
  return state;
}

// Losses by step, of a run's own or of an undisturbed one.
std::map<int64_t, double> LossesOf(const Course& course) {
  std::map<int64_t, double> losses;
  if (course.elastic()) {
    const report::RankRecord* lead = course.evidence.lead();
    for (int i = 0; lead != nullptr && i < lead->steps_size(); ++i)
      losses[lead->first_step() + i] = lead->steps(i).loss();
  } else {
    for (size_t i = 0; i < course.reference.losses.size(); ++i)
      losses[static_cast<int64_t>(i)] = course.reference.losses[i];
  }
  return losses;
}

}  // namespace

void JudgeResumed(const Course& course, Findings& findings) {
  if (course.evidence.resumed == nullptr) return;
  const Resumed& resumed = *course.evidence.resumed;
  ++(*findings.verdict().mutable_happened())["resumed by another run"];
  if (!resumed.evidence.status.ok()) {
    return findings.Add("resume", StrCat("a run that resumes from ", resumed.path,
                                         " fails: ", std::string(resumed.evidence.status.message())));
  }
  // As long as the same replicas train. Runs that are not elastic are those of an undisturbed run as far as they go.
  int64_t end = course.spec.train().steps();
  for (auto later = course.first_step.upper_bound(resumed.generation); later != course.first_step.end(); ++later)
    end = std::min(end, later->second);
  const State expected = course.elastic() ? StateOf(course.evidence, resumed.generation) : course.reference.state;
  for (const auto& [key, value] : StateOf(resumed.evidence, 0)) {
    const auto known = expected.find(key);
    if (key.first > end || known == expected.end() || known->second == value) continue;
    return findings.Add("resume", StrCat("a run that resumes from ", resumed.path, " holds other bits after ",
                                         key.first, " steps than the run that saved it"));
  }
  const std::map<int64_t, double> losses = LossesOf(course);
  const report::RankRecord* lead = resumed.evidence.lead();
  for (int i = 0; lead != nullptr && i < lead->steps_size(); ++i) {
    const int64_t step = lead->first_step() + i;
    const auto known = losses.find(step);
    const double loss = lead->steps(i).loss();
    if (step >= end || known == losses.end() || known->second == loss ||
        (std::isnan(loss) && std::isnan(known->second)))
      continue;
    return findings.Add("resume", absl::StrFormat("a run that resumes from %s: step %d: loss %.9g, but %.9g in the run "
                                                  "that saved it",
                                                  resumed.path, step, loss, known->second));
  }
}

}  // namespace twofold::storm
