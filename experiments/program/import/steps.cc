#include "experiments/program/import/steps.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/status.h"

namespace twofold {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep";

// `name` itself, or with a number: "step 3", "step_3", "ProfilerStep#3".
bool IsCalled(std::string_view given, std::string_view name) {
  if (!given.starts_with(name)) return false;
  return given.find_first_not_of("0123456789#_:- ", name.size()) == given.npos;
}

// In order of time, none within another one.
std::vector<const HostSpan*> Annotations(const RankTrace& trace, std::string_view name) {
  std::vector<const HostSpan*> found, apart;
  for (const HostSpan& a : trace.annotations) {
    if (IsCalled(a.name, name)) found.push_back(&a);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const HostSpan* a, const HostSpan* b) { return a->start < b->start; });
  for (const HostSpan* a : found) {
    if (apart.empty() || a->start >= apart.back()->end) apart.push_back(a);
  }
  return apart;
}

struct Work {
  double start = std::numeric_limits<double>::infinity(), end = 0;
  bool any() const { return start < std::numeric_limits<double>::infinity(); }
};

// What the device did of each annotation's launches.
std::vector<Work> WorkOf(const RankTrace& trace, const std::vector<const HostSpan*>& annotations) {
  std::unordered_map<int64_t, double> launched;
  for (const KernelLaunch& l : trace.launches) launched.emplace(l.correlation, l.time);
  std::vector<Work> work(annotations.size());
  for (const DeviceSpan& span : trace.device) {
    const auto at = launched.find(span.correlation);
    if (at == launched.end()) continue;
    auto next = std::upper_bound(annotations.begin(), annotations.end(), at->second,
                                 [](double time, const HostSpan* a) { return time < a->start; });
    if (next == annotations.begin()) continue;
    const size_t i = static_cast<size_t>(next - annotations.begin()) - 1;
    if (at->second > annotations[i]->end) continue;
    work[i].start = std::min(work[i].start, span.start);
    work[i].end = work[i].any() ? std::max(work[i].end, span.end) : span.end;
  }
  return work;
}

ImportedSteps WholeTrace(const RankTrace& trace) {
  double start = std::numeric_limits<double>::infinity(), end = -start;
  for (const DeviceSpan& s : trace.device) start = std::min(start, s.start), end = std::max(end, s.end);
  return {{start, end},
          {"the whole trace"},
          {"the trace has no annotations of steps (ProfilerStep#N, which the profiler's step() makes): all of it is "
           "taken as one step; name other annotations by --step"}};
}

std::string KnownNames(const RankTrace& trace) {
  std::set<std::string> names;
  for (const HostSpan& a : trace.annotations) {
    if (a.name.find("::") == std::string::npos) names.insert(a.name);  // not operators: aten::mm
  }
  std::vector<std::string> few(names.begin(), std::next(names.begin(), std::min<std::ptrdiff_t>(8, std::ssize(names))));
  return few.empty() ? "it has none" : StrCat("it has ", absl::StrJoin(few, ", "), names.size() > 8 ? ", ..." : "");
}

ImportedSteps ByHost(const std::vector<const HostSpan*>& annotations) {
  ImportedSteps steps;
  for (const HostSpan* a : annotations) steps.bounds.push_back(a->start), steps.names.push_back(a->name);
  steps.bounds.push_back(annotations.back()->end);
  steps.notes.push_back(
      "no launches are recorded, so steps are taken where the host's annotations are; the device may have done their "
      "work later");
  return steps;
}

}  // namespace

absl::StatusOr<ImportedSteps> StepsOf(const RankTrace& trace, std::string_view name) {
  const std::vector<const HostSpan*> annotations = Annotations(trace, name.empty() ? kProfilerStep : name);
  if (annotations.empty()) {
    if (name.empty()) return WholeTrace(trace);
    return InvalidArgument(trace.file, ": has no annotations called ", name, " (--step); ", KnownNames(trace));
  }
  const std::vector<Work> work = WorkOf(trace, annotations);
  if (std::none_of(work.begin(), work.end(), [](const Work& w) { return w.any(); })) return ByHost(annotations);
  ImportedSteps steps;
  size_t left_out = 0;
  double end = 0, highest = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < work.size(); ++i) {
    // Work that begins before an earlier step's is ahead of its step: a copy on a stream of its own.
    const bool counts = work[i].any() && work[i].start > highest;
    if (!counts) {
      ++left_out;
      continue;
    }
    highest = work[i].start;
    steps.bounds.push_back(work[i].start), steps.names.push_back(annotations[i]->name);
    end = std::max(work[i].end, annotations[i]->end);
  }
  steps.bounds.push_back(end);
  if (left_out > 0)
    steps.notes.push_back(StrCat(Counted(static_cast<int64_t>(left_out), "annotated step"), " without work of the ",
                                 trace.on_host ? "CPU" : "GPU", " left out"));
  return steps;
}

}  // namespace twofold
