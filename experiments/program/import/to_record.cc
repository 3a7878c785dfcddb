#include "experiments/program/import/to_record.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/memory/ledger.h"
#include "experiments/program/import/steps.h"
#include "experiments/program/report/gpu_kernels.h"
#include "strategies/kernel_totals.h"

namespace twofold {
namespace {

struct Interval {
  double start, end;
};

// Disjoint and ascending.
class Covered {
 public:
  // The parts of `span` that are not covered. `span`s must come in ascending order of their starts.
  template <class Each>
  void Without(Interval span, Each each) {
    // not those that end where it begins: Cover may lengthen the last one
    while (next_ < of_.size() && of_[next_].end < span.start) ++next_;
    for (size_t i = next_; i < of_.size() && of_[i].start < span.end; ++i) {
      if (of_[i].start > span.start) each(Interval{span.start, of_[i].start});
      span.start = std::max(span.start, of_[i].end);
    }
    if (span.start < span.end) each(span);
  }
  // In ascending order of starts.
  void Cover(Interval span) {
    if (span.end <= span.start) return;
    if (!of_.empty() && span.start <= of_.back().end)
      of_.back().end = std::max(of_.back().end, span.end);
    else
      of_.push_back(span);
  }
  void Rewind() { next_ = 0; }

 private:
  std::vector<Interval> of_;
  size_t next_ = 0;
};

enum Part { kCompute, kCommunication, kTransfer, kParts };

Part PartOf(GpuWork work) {
  if (work == GpuWork::kCommunication) return kCommunication;
  return work == GpuWork::kTransfer ? kTransfer : kCompute;
}

// One span with what was found out about it.
struct Placed {
  const DeviceSpan* span;
  Part part;
  ImportedCall call;  // of communication
  double own = 0;     // seconds of the steps that belong to it
};

class Builder {
 public:
  Builder(const RankTrace& trace, const ImportOptions& options, ImportedSteps steps)
      : trace_(trace), options_(options), steps_(std::move(steps)) {}

  absl::StatusOr<report::RankRecord> Build() {
    if (!(end() > begin())) return InvalidArgument(trace_.file, ": its steps take no time");
    Place();
    if (placed_.empty())
      return InvalidArgument(trace_.file, ": the ", trace_.on_host ? "CPU" : "GPU",
                             " does nothing within the annotated steps; give --step=NAME for other annotations");
    Attribute();
    NameStreams();
    AddSteps();
    AddKernels();
    AddCalls();
    AddSpans();
    AddMemory();
    for (const std::string& note : steps_.notes) out_.add_notes(note);
    AddNotes();
    return std::move(out_);
  }

 private:
  double begin() const { return steps_.bounds.front(); }
  double end() const { return steps_.bounds.back(); }
  size_t count() const { return steps_.names.size(); }

  void Place();
  void Attribute();
  void NameStreams();
  void AddSteps();
  void AddKernels();
  void AddCalls();
  void AddSpans();
  void AddMemory();
  void AddNotes();
  ImportedCall CallOf(const DeviceSpan& span, const std::map<int64_t, std::vector<const HostCall*>>& calls,
                      const std::unordered_map<int64_t, const KernelLaunch*>& launches) const;
  std::string StreamOf(const Placed& p) const;
  void AddTo(std::vector<double>& of_steps, Interval part) const;

  const RankTrace& trace_;
  const ImportOptions& options_;
  const ImportedSteps steps_;
  int64_t device_ = 0, main_stream_ = 0;
  std::vector<Placed> placed_;   // by start, those that begin within the steps
  std::vector<double> exposed_;  // by step: communication and other waits
  double overlapped_ = 0;        // seconds of kernels beside others
  report::RankRecord out_;
};

// The host's call around a kernel's launch, for traces whose kernels do not say what they are.
ImportedCall Builder::CallOf(const DeviceSpan& span, const std::map<int64_t, std::vector<const HostCall*>>& calls,
                             const std::unordered_map<int64_t, const KernelLaunch*>& launches) const {
  ImportedCall call = span.call.value_or(ImportedCall{});
  const auto launch = launches.find(span.correlation);
  if ((call.group.empty() || call.bytes == 0) && launch != launches.end()) {
    const auto of_thread = calls.find(launch->second->thread);
    if (of_thread != calls.end()) {
      const std::vector<const HostCall*>& list = of_thread->second;
      auto next = std::upper_bound(list.begin(), list.end(), launch->second->time,
                                   [](double time, const HostCall* c) { return time < c->span.start; });
      if (next != list.begin() && (*--next)->span.end >= launch->second->time) {
        const ImportedCall& host = (*next)->call;
        if (call.operation.empty()) call.operation = host.operation;
        if (call.group.empty()) call.group = host.group;
        if (call.bytes == 0) call.bytes = host.bytes;
        if (call.group_size == 0) call.group_size = host.group_size;
      }
    }
  }
  if (call.operation.empty()) call.operation = "communication";
  const auto renamed = options_.groups.find(call.group);
  call.group = renamed != options_.groups.end() ? renamed->second
               : call.group.empty()             ? "unknown group"
                                                : GroupName(call.group);
  return call;
}

void Builder::Place() {
  std::map<int64_t, double> busy;  // by device
  for (const DeviceSpan& s : trace_.device) busy[s.device] += s.end - s.start;
  device_ = std::max_element(busy.begin(), busy.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  if (busy.size() > 1)
    out_.add_notes(
        StrCat("the trace has work of ", busy.size(), " GPUs; that of GPU ", device_, ", the busiest, is used"));
  std::unordered_map<int64_t, const KernelLaunch*> launches;
  for (const KernelLaunch& l : trace_.launches) launches.emplace(l.correlation, &l);
  std::map<int64_t, std::vector<const HostCall*>> calls;
  for (const HostCall& c : trace_.calls) calls[c.span.thread].push_back(&c);
  for (auto& [thread, list] : calls) {
    std::stable_sort(list.begin(), list.end(),
                     [](const HostCall* a, const HostCall* b) { return a->span.start < b->span.start; });
  }
  for (const DeviceSpan& s : trace_.device) {
    if (s.device != device_ || s.start < begin() || s.start >= end()) continue;
    Placed p{.span = &s, .part = PartOf(GpuWorkOf(s.name)), .call = {}};
    if (p.part == kCommunication) p.call = CallOf(s, calls, launches);
    placed_.push_back(std::move(p));
  }
  std::stable_sort(placed_.begin(), placed_.end(),
                   [](const Placed& a, const Placed& b) { return a.span->start < b.span->start; });
}

// Adds a part of the time to the steps that it lies in.
void Builder::AddTo(std::vector<double>& of_steps, Interval part) const {
  auto next = std::upper_bound(steps_.bounds.begin(), steps_.bounds.end(), part.start);
  for (size_t i = static_cast<size_t>(next - steps_.bounds.begin()) - 1; i < count() && part.start < part.end; ++i) {
    const double until = std::min(part.end, steps_.bounds[i + 1]);
    of_steps[i] += until - part.start;
    part.start = until;
  }
}

void Builder::Attribute() {
  exposed_.assign(count(), 0);
  Covered covered[kParts];
  for (const Part part : {kCompute, kCommunication, kTransfer}) {
    // Time of the same part goes to the span that began first, time of the parts before it to those.
    for (Placed& p : placed_) {
      if (p.part != part) continue;
      const Interval span{p.span->start, std::min(p.span->end, end())};
      const auto take = [&](Interval rest) {
        p.own += rest.end - rest.start;
        if (part != kCompute) AddTo(exposed_, rest);
      };
      std::vector<Interval> rests;
      covered[part].Without(span, [&](Interval rest) { rests.push_back(rest); });
      for (const Interval& rest : rests) {
        if (part == kCompute) {
          take(rest);
        } else {
          covered[kCompute].Without(rest, [&](Interval left) {
            if (part == kCommunication)
              take(left);
            else
              covered[kCommunication].Without(left, take);
          });
        }
      }
      if (part == kCompute) overlapped_ += std::max(0.0, span.end - span.start) - p.own;
      covered[part].Cover(span);
    }
    for (Covered& c : covered) c.Rewind();
  }
}

void Builder::NameStreams() {
  std::map<int64_t, double> computes;
  for (const Placed& p : placed_) {
    if (p.part == kCompute) computes[p.span->stream] += p.span->end - p.span->start;
  }
  if (computes.empty()) return;
  main_stream_ =
      std::max_element(computes.begin(), computes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

std::string Builder::StreamOf(const Placed& p) const {
  if (p.part == kCommunication) return StrCat("communication ", p.call.group);
  return p.span->stream == main_stream_ ? std::string("compute") : StrCat("compute ", p.span->stream);
}

void Builder::AddSteps() {
  for (size_t i = 0; i < count(); ++i) {
    report::Step& step = *out_.add_steps();
    step.set_seconds(steps_.bounds[i + 1] - steps_.bounds[i]);
    step.set_exposed_communication_seconds(exposed_[i]);
  }
}

void Builder::AddKernels() {
  const Trace::AllExpected measured;
  KernelTotals kernels(measured);
  for (const Placed& p : placed_) {
    if (p.part == kCompute) kernels.Add({.kernel = p.span->name, .seconds = p.own, .continues = p.span->continues});
  }
  kernels.WriteTo(static_cast<int64_t>(count()), out_);
}

void Builder::AddCalls() {
  std::map<std::pair<std::string, std::string>, report::Collective> collectives;
  for (const Placed& p : placed_) {
    if (p.part != kCommunication) continue;
    report::Collective& c = collectives[{p.call.operation, p.call.group}];
    c.set_operation(p.call.operation), c.set_group(p.call.group);
    c.set_count(c.count() + 1), c.set_seconds(c.seconds() + p.span->end - p.span->start);
    int64_t bytes = 0;
    c.set_bytes(__builtin_add_overflow(c.bytes(), p.call.bytes, &bytes) ? INT64_MAX : bytes);
  }
  for (auto& [key, c] : collectives) *out_.add_collectives() = std::move(c);
}

void Builder::AddSpans() {
  std::vector<report::Span> spans;
  for (const Placed& p : placed_) {
    report::Span& s = spans.emplace_back();
    s.set_stream(StreamOf(p));
    s.set_name(p.part == kCommunication ? p.call.operation : p.span->name);
    s.set_start(p.span->start), s.set_end(p.span->end);
    s.set_bytes(p.part == kCommunication ? p.call.bytes : p.span->bytes);
    if (p.part == kCommunication) s.set_exposed(p.own);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const report::Span& a, const report::Span& b) { return a.stream() < b.stream(); });
  for (report::Span& s : spans) *out_.add_spans() = std::move(s);
}

void Builder::AddMemory() {
  report::Rank& memory = *out_.mutable_memory();
  std::vector<const MemoryState*> states;
  for (const MemoryState& m : trace_.memory) {
    memory.set_peak_bytes(std::max(memory.peak_bytes(), m.allocated));
    memory.set_reserved_bytes(std::max(memory.reserved_bytes(), m.reserved));
    if (m.time >= begin() && m.time < end()) states.push_back(&m);
  }
  if (trace_.memory.empty()) return;
  const auto other = static_cast<int>(Category::kOther);
  report::Category& category = *memory.add_categories();
  category.set_name(std::string(CategoryName(Category::kOther)));
  category.set_peak_bytes(memory.peak_bytes()), category.set_bytes_at_peak(memory.peak_bytes());
  std::stable_sort(states.begin(), states.end(),
                   [](const MemoryState* a, const MemoryState* b) { return a->time < b->time; });
  for (const MemoryState* m : states) {
    report::MemorySample& sample = *out_.add_samples();
    sample.set_time(m->time), sample.set_reserved(m->reserved);
    for (int c = 0; c < kCategories; ++c) sample.add_live_by_category(c == other ? m->allocated : 0);
  }
}

void Builder::AddNotes() {
  for (const std::string& note : trace_.notes) out_.add_notes(note);
  const std::string& recorder = trace_.records_memory;
  if (trace_.memory.empty())
    out_.add_notes(StrCat("the trace has no memory", recorder.empty() ? "" : StrCat(" (", recorder, " records it)"),
                          ": its figures are 0"));
  else
    out_.add_notes("memory is what PyTorch's allocator gave out and reserved, all of it in the category \"other\"");
  bool unsized = false, ungrouped = false;
  for (const Placed& p : placed_) {
    if (p.part != kCommunication) continue;
    unsized = unsized || (p.call.bytes == 0 && p.call.operation != "barrier");
    ungrouped = ungrouped || p.call.group == "unknown group";
  }
  if (unsized) out_.add_notes("sizes of some collectives are not in the trace: they count as 0 bytes");
  if (ungrouped) out_.add_notes("process groups of some collectives are not in the trace: \"unknown group\"");
  if (overlapped_ > 1e-9)
    out_.add_notes(StrCat("kernels ran beside others for ", SecondsText(overlapped_ / static_cast<double>(count())),
                          " per step; such time counts for the one that began first"));
}

}  // namespace

std::string GroupName(const std::string& description) {
  static const std::map<std::string, std::string> kNames = {{"default_pg", "world"},
                                                            {"DATA_PARALLEL_GROUP", "dp"},
                                                            {"DATA_PARALLEL_GROUP_WITH_CP", "dp"},
                                                            {"TENSOR_MODEL_PARALLEL_GROUP", "tp"},
                                                            {"PIPELINE_MODEL_PARALLEL_GROUP", "pp"},
                                                            {"CONTEXT_PARALLEL_GROUP", "cp"},
                                                            {"EXPERT_MODEL_PARALLEL_GROUP", "ep"},
                                                            {"MODEL_PARALLEL_GROUP", "model"}};
  const auto known = kNames.find(description);
  if (known != kNames.end()) return known->second;
  constexpr std::string_view kMesh = "mesh_";  // torch.distributed.device_mesh
  return description.starts_with(kMesh) && description.size() > kMesh.size() ? description.substr(kMesh.size())
                                                                             : description;
}

absl::StatusOr<report::RankRecord> ToRecord(const RankTrace& trace, const ImportOptions& options) {
  absl::StatusOr<ImportedSteps> steps = StepsOf(trace, options.step);
  if (!steps.ok()) return steps.status();
  return Builder(trace, options, *std::move(steps)).Build();
}

}  // namespace twofold
