#include "backends/simulated/goal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::string LabelOf(int64_t node) { return StrCat("l", node); }

std::string TextOf(const GoalMessage& m) {
  return StrCat(m.send ? "send " : "recv ", m.bytes, "b ", m.send ? "to " : "from ", m.peer, " tag ", m.tag);
}

}  // namespace

int GoalRank::CpuOf(const std::string& stream) {
  constexpr int kLast = 255;  // LogGOPSim's are 8-bit numbers
  if (cpus_.empty()) cpus_["host"] = 0;
  return cpus_.try_emplace(stream, std::min(static_cast<int>(cpus_.size()), kLast)).first->second;
}

void GoalRank::CheckSize() {
  if (static_cast<int64_t>(operations_.size() + requires_.size()) <= most_) return;
  operations_.clear(), requires_.clear();
  Refuse(StrCat("this rank's part of the schedule is larger than the ", most_,
                " bytes that trace.goal_mib leaves it; raise that, or use fewer train.steps"));
}

void GoalRank::Line(std::string_view label, std::string_view what, int cpu) {
  if (!refused_.empty()) return;
  StrAppend(&operations_, label, ": ", what, " cpu ", cpu, "\n");
  CheckSize();
}

void GoalRank::Require(std::string_view label, std::string_view before) {
  if (!refused_.empty()) return;
  StrAppend(&requires_, label, " requires ", before, "\n");
  CheckSize();
}

void GoalRank::After(std::string_view label, const std::vector<int64_t>& nodes) {
  for (const int64_t node : nodes) Require(label, LabelOf(node));
}

// Whole nanoseconds, whose sum is off by less than one.
void GoalRank::Works(int64_t node, std::vector<int64_t> after, const std::string& stream, double seconds) {
  const int cpu = CpuOf(stream);
  double& exact = exact_[cpu];
  const int64_t before = std::llround(exact);
  exact += seconds * 1e9;
  Line(LabelOf(node), StrCat("calc ", std::llround(exact) - before), cpu);
  After(LabelOf(node), after);
}

void GoalRank::Communicates(int64_t node, std::vector<int64_t> after, const std::string& stream) {
  open_[node] = {std::move(after), CpuOf(stream)};
}

void GoalRank::Consists(int64_t node, const std::vector<GoalMessage>& messages) {
  const auto found = open_.extract(node);
  if (found.empty()) return;
  const auto& [after, cpu] = found.mapped();
  const std::string label = LabelOf(node);
  if (messages.size() <= 1) {
    Line(label, messages.empty() ? "calc 0" : TextOf(messages[0]), cpu);
    return After(label, after);
  }
  Line(StrCat(label, "b"), "calc 0", cpu);
  After(StrCat(label, "b"), after);
  AddPhases(label, cpu, messages);
}

// Where a phase and the one before it have several messages each, a `calc 0` stands between them: edges stay few.
void GoalRank::AddPhases(const std::string& label, int cpu, const std::vector<GoalMessage>& messages) {
  std::vector<std::string> before = {StrCat(label, "b")}, now;
  const auto join = [&](std::string name) {
    Line(name, "calc 0", cpu);
    for (const std::string& one : before) Require(name, one);
    before = {std::move(name)};
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string own = StrCat(label, "_", i);
    const bool last = i + 1 == messages.size() || messages[i + 1].phase != messages[i].phase;
    if (before.size() > 1 && now.empty() && !last) join(StrCat(label, "p", messages[i].phase));
    Line(own, TextOf(messages[i]), cpu);
    for (const std::string& one : before) Require(own, one);
    now.push_back(own);
    if (last) before = std::exchange(now, {});
  }
  join(label);
}

std::string GoalRank::Take() {
  if (!open_.empty() && refused_.empty()) Refuse("the rank ended before its communication");
  if (!refused_.empty())
    throw RankFailure(RankFailure::Kind::kOther, rank_, StrCat("rank ", rank_, ": trace.goal: ", refused_));
  return StrCat("rank ", rank_, " {\n", std::exchange(operations_, {}), std::exchange(requires_, {}), "}\n");
}

uint32_t GoalTags::ForMessage(const void* group, int from, int to, int tag, bool send, size_t count) {
  Ahead& ahead = ahead_[{group, from, to, tag}];
  std::deque<uint32_t>& own = send ? ahead.sends : ahead.receives;
  std::deque<uint32_t>& others = send ? ahead.receives : ahead.sends;
  if (others.empty()) return own.emplace_back(Next(count));
  const uint32_t first = others.front();
  others.pop_front();
  return first;
}

sim::Schedule WithFlows(const sim::Schedule& schedule, int ranks) {
  if (FlowsOf(schedule) > 0) return schedule;
  sim::Schedule dissemination;
  for (int distance = 1; distance < ranks; distance *= 2) {
    sim::Phase& phase = dissemination.phases.emplace_back();
    for (int r = 0; r < ranks; ++r) phase.flows.push_back({.from = r, .to = (r + distance) % ranks, .bytes = 0});
  }
  return dissemination;
}

size_t FlowsOf(const sim::Schedule& schedule) {
  size_t flows = 0;
  for (const sim::Phase& phase : schedule.phases) flows += phase.flows.size();
  return flows;
}

std::vector<std::vector<GoalMessage>> GoalMessagesOf(const sim::Schedule& schedule, std::span<const int> ranks,
                                                     uint32_t first_tag) {
  std::vector<std::vector<GoalMessage>> of(ranks.size());
  for (size_t p = 0; p < schedule.phases.size(); ++p) {
    for (const sim::Flow& flow : schedule.phases[p].flows) {
      const auto from = static_cast<size_t>(flow.from), to = static_cast<size_t>(flow.to);
      const uint32_t tag = first_tag++;
      if (from == to) continue;
      const auto phase = static_cast<int>(p);
      const int64_t bytes = std::llround(flow.bytes);
      of[from].push_back({phase, true, ranks[to], bytes, tag});
      of[to].push_back({phase, false, ranks[from], bytes, tag});
    }
  }
  return of;
}

}  // namespace twofold
