#include "experiments/program/step_time.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twofold {
namespace {

constexpr std::string_view kCommunication = "communication ";

using Calls = std::vector<const report::Span*>;

std::map<std::string, Calls> CallsByStream(const report::RankRecord& record) {
  std::map<std::string, Calls> streams;
  for (const report::Span& s : record.spans()) {
    if (s.stream().starts_with(kCommunication)) streams[s.stream()].push_back(&s);
  }
  return streams;
}

bool SameCalls(const Calls& a, const Calls& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const report::Span* x, const report::Span* y) {
    return x->name() == y->name() && x->bytes() == y->bytes();
  });
}

double Length(const report::Span& s) { return s.end() - s.start(); }

// How long each of rank 0's calls on a stream waited for other ranks: from the call if `known`, else from the rank that
// came last. Ranks that did the same may differ in the last bits of their clocks; such differences are not waiting.
// `origin`: the clock's time at which spans start to count.
std::vector<double> Waiting(const std::vector<std::map<std::string, Calls>>& ranks, const std::string& stream,
                            bool known, double origin) {
  const Calls& own = ranks[0].at(stream);
  std::vector<double> waiting;
  for (const report::Span* call : own) waiting.push_back(known ? call->waiting() : 0);
  for (const auto& other : ranks) {
    const auto calls = other.find(stream);
    if (known || calls == other.end() || !SameCalls(own, calls->second)) continue;
    for (size_t i = 0; i < own.size(); ++i)
      waiting[i] = std::max(waiting[i], Length(*own[i]) - Length(*calls->second[i]));
  }
  constexpr double kLastBits = 1e-13;  // relative error of a clock that sums thousands of durations
  for (size_t i = 0; i < own.size(); ++i) {
    if (waiting[i] <= kLastBits * std::abs(origin + own[i]->end())) waiting[i] = 0;
  }
  return waiting;
}

}  // namespace

void AddStepTime(const RankRecords& records, int64_t traced_steps, report::Report& out) {
  if (records.empty() || records.lead().steps().empty()) return;
  const report::RankRecord& rank0 = records.lead();
  if (rank0.kernels().empty() && rank0.spans().empty()) return;  // nothing was traced
  const int steps = std::clamp(static_cast<int>(traced_steps), 1, rank0.steps_size());
  double seconds = 0, stalled = 0;
  for (int i = rank0.steps_size() - steps; i < rank0.steps_size(); ++i) {
    seconds += rank0.steps(i).seconds(), stalled += rank0.steps(i).exposed_communication_seconds();
  }
  out.set_traced_step_seconds(seconds / steps);

  std::vector<std::map<std::string, Calls>> ranks = {CallsByStream(rank0)};
  for (const report::RankRecord& record : records.kept()) ranks.push_back(CallsByStream(record));
  double waiting = 0, all = 0;
  std::map<std::pair<std::string, std::string>, double> exposed;  // keyed by group and operation
  for (const auto& [stream, calls] : ranks[0]) {
    const std::string group = stream.substr(kCommunication.size());
    const std::vector<double> waits = Waiting(ranks, stream, out.predicted(), rank0.trace_origin_seconds());
    for (size_t i = 0; i < calls.size(); ++i) {  // the exposed part is the call's end; waiting is at its start
      const double waited = std::clamp(calls[i]->exposed() - (Length(*calls[i]) - waits[i]), 0.0, waits[i]);
      waiting += waited, exposed[{group, calls[i]->name()}] += calls[i]->exposed() - waited, all += calls[i]->exposed();
    }
  }
  const bool all_named = all > 0 && all >= stalled * (1 - 1e-9);  // except for rounding
  const double share = all_named ? stalled / all : 1;
  out.set_waiting_seconds(waiting * share / steps);
  for (report::Collective& c : *out.mutable_collectives())
    c.set_exposed_seconds(exposed[{c.group(), c.operation()}] * share / steps);
  out.set_exposed_other_seconds(all_named ? 0 : (stalled - all) / steps);
}

}  // namespace twofold
