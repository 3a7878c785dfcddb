#include "experiments/program/import/host_work.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/import/nccl_names.h"

namespace twofold {
namespace {

constexpr std::string_view kCollective = "gloo:";          // from the call until the collective has ended
constexpr std::string_view kOptimizer = "Optimizer.step";  // and '#', the optimizer's class, ".step"
constexpr std::array<std::string_view, 4> kNoOperators = {"autograd", "torch", "c10d", "profiler"};

// "aten::mm", "mkldnn::..."; not "torch::autograd::AccumulateGrad", "autograd::engine::evaluate_function: ...".
bool IsOperator(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == name.npos || colons == 0) return false;
  const std::string_view library = name.substr(0, colons);
  if (library.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != library.npos) return false;
  return std::find(kNoOperators.begin(), kNoOperators.end(), library) == kNoOperators.end();
}

// An operator that has begun and not ended.
struct Open {
  std::string name;
  double resumed = 0, end = 0;  // since when it is the innermost one; when it ends
  bool told = false;            // a piece of it is there
};

class Thread {
 public:
  Thread(RankTrace& trace, int64_t number) : trace_(trace), number_(number) {}

  // In the order of starts, those that end later first.
  void Add(const HostSpan& span) {
    EndUntil(span.start);
    if (span.name.starts_with(kOptimizer)) {
      optimizer_ = span.name, optimizer_end_ = span.end;
    } else if (IsOperator(span.name)) {
      if (!open_.empty()) Piece(open_.back(), span.start);
      const bool updates = !optimizer_.empty() && span.start < optimizer_end_;
      // An operator never outlives the one that called it, whatever the trace rounds.
      const double end = open_.empty() ? span.end : std::min(span.end, open_.back().end);
      open_.push_back({updates ? StrCat(optimizer_, ": ", span.name) : span.name, span.start, end, false});
    }
  }
  void EndUntil(double time) {
    while (!open_.empty() && open_.back().end <= time) {
      const double end = open_.back().end;
      Piece(open_.back(), end);
      open_.pop_back();
      if (!open_.empty()) open_.back().resumed = end;
    }
  }

 private:
  void Piece(Open& of, double until) {
    if (until <= of.resumed && of.told) return;
    const auto correlation = static_cast<int64_t>(trace_.launches.size()) + 1;
    trace_.launches.push_back({correlation, number_, of.resumed});
    trace_.device.push_back({.name = of.name,
                             .start = of.resumed,
                             .end = std::max(of.resumed, until),
                             .stream = number_,
                             .correlation = correlation,
                             .continues = std::exchange(of.told, true)});
  }

  RankTrace& trace_;
  const int64_t number_;
  std::vector<Open> open_;
  std::string optimizer_;
  double optimizer_end_ = 0;
};

void AddCollective(const HostSpan& span, RankTrace& trace) {
  const auto correlation = static_cast<int64_t>(trace.launches.size()) + 1;
  trace.launches.push_back({correlation, span.thread, span.start});
  DeviceSpan collective{
      .name = span.name, .start = span.start, .end = span.end, .stream = span.thread, .correlation = correlation};
  collective.call = {.operation = OperationOf(span.name), .group = ""};
  // Of others, the payload is also the number of ranks times what each has.
  for (const std::string_view of_one_tensor : {"all_reduce", "broadcast", "reduce"})
    if (collective.call->operation == of_one_tensor) collective.call->bytes = span.bytes;
  trace.device.push_back(std::move(collective));
}

}  // namespace

bool TakeHostWork(RankTrace& trace) {
  std::map<int64_t, std::vector<const HostSpan*>> threads;
  bool any = false;
  for (const HostSpan& span : trace.annotations) {
    const bool collective = span.name.starts_with(kCollective);
    any = any || collective || IsOperator(span.name);
    if (collective)
      AddCollective(span, trace);
    else
      threads[span.thread].push_back(&span);
  }
  if (!any) return false;
  for (auto& [number, spans] : threads) {
    std::stable_sort(spans.begin(), spans.end(), [](const HostSpan* a, const HostSpan* b) {
      return a->start != b->start ? a->start < b->start : a->end > b->end;
    });
    Thread thread(trace, number);
    for (const HostSpan* span : spans) thread.Add(*span);
    thread.EndUntil(std::numeric_limits<double>::infinity());
  }
  trace.on_host = true, trace.device_name = "CPU", trace.records_memory = "";
  trace.notes.push_back(
      "the trace has no work of a GPU: operators on the CPU are taken for kernels, by what each does itself");
  return true;
}

}  // namespace twofold
