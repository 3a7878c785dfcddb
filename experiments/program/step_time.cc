#include "experiments/program/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twofold {
namespace {

constexpr std::string_view kCompute = "compute", kCommunication = "communication ";

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

// What is left of the compute stream's idle time.
class Idle {
 public:
  Idle(const report::RankRecord& record, double end) {
    double free_from = 0;
    for (const report::Span& s : record.spans()) {  // of one stream: by their start
      if (s.stream() != kCompute) continue;
      if (s.start() > free_from) gaps_.push_back({free_from, s.start()});
      free_from = std::max(free_from, s.end());
    }
    if (end > free_from) gaps_.push_back({free_from, end});
  }
  // Takes what there is between two times, and returns how much it was.
  double Take(double from, double to) {
    double taken = 0;
    auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), from, [](const Gap& g, double t) { return g.end <= t; });
    while (gap != gaps_.end() && gap->begin < to) {
      const double begin = std::max(gap->begin, from), end = std::min(gap->end, to);
      if (end <= begin) {  // taken before
        ++gap;
        continue;
      }
      taken += end - begin;
      const Gap after{end, gap->end};
      gap->end = begin;
      ++gap;
      if (after.end > after.begin) gap = gaps_.insert(gap, after);
    }
    return taken;
  }

 private:
  struct Gap { double begin, end; };
  std::vector<Gap> gaps_;
};

// How long each of rank 0's calls on a stream waited for others. Lengths are differences of two times of a clock, which ranks that did the
// same may have read a few last bits apart: what those make is no waiting. `origin`: of the clock, where spans begin to count.
std::vector<double> Waiting(const std::vector<std::map<std::string, Calls>>& ranks, const std::string& stream, double origin) {
  const Calls& own = ranks[0].at(stream);
  std::vector<double> shortest;
  for (const report::Span* call : own) shortest.push_back(Length(*call));
  for (const auto& other : ranks) {
    const auto calls = other.find(stream);
    if (calls == other.end() || !SameCalls(own, calls->second)) continue;
    for (size_t i = 0; i < own.size(); ++i) shortest[i] = std::min(shortest[i], Length(*calls->second[i]));
  }
  std::vector<double> waiting;
  constexpr double kLastBits = 8 * std::numeric_limits<double>::epsilon();
  for (size_t i = 0; i < own.size(); ++i) {
    const double waited = std::max(own[i]->waiting(), Length(*own[i]) - shortest[i]);
    waiting.push_back(waited > kLastBits * std::abs(origin + own[i]->end()) ? waited : 0);
  }
  return waiting;
}

}  // namespace

void AddStepTime(const RankRecords& records, int64_t traced_steps, report::Report& out) {
  if (records.empty() || records.first().kernels().empty() || records.first().steps().empty()) return;
  const report::RankRecord& rank0 = records.first();
  const int steps = std::clamp(static_cast<int>(traced_steps), 1, rank0.steps_size());
  double end = 0, stalled = 0;
  for (int i = rank0.steps_size() - steps; i < rank0.steps_size(); ++i) {
    end += rank0.steps(i).seconds(), stalled += rank0.steps(i).exposed_communication_seconds();
  }
  out.set_traced_step_seconds(end / steps);
  for (const report::Validation& v : rank0.validations()) {  // in no step, but spans after one lie behind it
    if (v.step() > rank0.steps_size() - steps && v.step() < rank0.steps_size()) end += v.seconds();
  }

  std::vector<std::map<std::string, Calls>> ranks = {CallsByStream(rank0)};
  for (const report::RankRecord& record : records.kept()) ranks.push_back(CallsByStream(record));
  Idle idle(rank0, end);
  double waiting = 0, all = 0;
  std::map<std::pair<std::string, std::string>, double> exposed;  // by group and operation
  for (const auto& [stream, calls] : ranks[0]) {
    const std::string group = stream.substr(kCommunication.size());
    const std::vector<double> waits = Waiting(ranks, stream, rank0.trace_origin_seconds());
    for (size_t i = 0; i < calls.size(); ++i) {
      const double met = calls[i]->start() + waits[i];
      const double waited = idle.Take(calls[i]->start(), met), moved = idle.Take(met, calls[i]->end());
      waiting += waited, exposed[{group, calls[i]->name()}] += moved, all += waited + moved;
    }
  }
  if (all <= 0) {  // stalled, and by nothing that was traced
    out.set_waiting_seconds(stalled / steps);
    return;
  }
  const double share = stalled / all / steps;
  out.set_waiting_seconds(waiting * share);
  for (report::Collective& c : *out.mutable_collectives()) c.set_exposed_seconds(exposed[{c.group(), c.operation()}] * share);
}

}  // namespace twofold
