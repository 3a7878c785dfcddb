#include "experiments/program/pictures/schedule_story.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "strategies/from_spec.h"

namespace twofold::pictures {
namespace {

using pipeline::Action;

constexpr std::string_view kLetters = "FBIWR";  // by Pass
constexpr double kHair = 1e-9;                  // tolerance for rounded numbers in files

// ---- Runs ----

bool IsCommunication(const Lane& lane) { return lane.stream.starts_with("communication"); }

// The shortest call of each kind and size.
using Shortest = std::map<std::pair<std::string, int64_t>, double>;
Shortest ShortestCalls(const std::vector<Lane>& lanes) {
  Shortest shortest;
  for (const Lane& lane : lanes) {
    if (!IsCommunication(lane)) continue;
    for (const DrawnSpan& s : lane.spans) {
      double& least = shortest.try_emplace({s.name, s.bytes}, std::numeric_limits<double>::infinity()).first->second;
      least = std::min(least, s.end - s.start - s.waiting);
    }
  }
  return shortest;
}

// When a rank's calls were transferring, in order and without overlap.
std::vector<Stretch> OnTheirWay(const std::vector<Lane>& lanes, int rank, const Shortest& shortest) {
  std::vector<Stretch> all;
  for (const Lane& lane : lanes) {
    if (lane.rank != rank || !IsCommunication(lane)) continue;
    for (const DrawnSpan& s : lane.spans) {
      const double moved = s.waiting > 0 ? s.end - s.start - s.waiting : shortest.at({s.name, s.bytes});
      if (moved > 0) all.push_back({s.end - moved, s.end});
    }
  }
  std::sort(all.begin(), all.end(), [](const Stretch& a, const Stretch& b) { return a.start < b.start; });
  std::vector<Stretch> joined;
  for (const Stretch& s : all) {
    if (joined.empty() || s.start > joined.back().end) {
      joined.push_back(s);
    } else {
      joined.back().end = std::max(joined.back().end, s.end);
    }
  }
  return joined;
}

// Adds a gap to a row: the part taken by calls and, if it lies within a phase, the rest as idle.
void AddGap(double start, double end, const std::vector<Stretch>& calls, bool within, ScheduleRow& row) {
  double at = start;
  auto call =
      std::lower_bound(calls.begin(), calls.end(), start, [](const Stretch& s, double t) { return s.end <= t; });
  for (; call != calls.end() && call->start < end; ++call) {
    const double from = std::max(call->start, start), to = std::min(call->end, end);
    if (within && from - at > kHair) row.idle.push_back({at, from});
    if (to - from > kHair) row.communication.push_back({from, to});
    at = to;
  }
  if (within && end - at > kHair) row.idle.push_back({at, end});
}

ScheduleRow RowOf(const RunData& run, const Lane& compute, const Shortest& shortest) {
  ScheduleRow row;
  const std::vector<Stretch> calls = OnTheirWay(run.lanes, compute.rank, shortest);
  double busy = 0;
  for (const DrawnSpan& s : compute.spans) {
    Phase phase = PhaseOf(s.label).value_or(Phase());
    phase.start = s.start, phase.end = s.end;
    const bool same = !row.phases.empty() && row.phases.back().Label() == phase.Label();
    if (s.start > busy) AddGap(busy, s.start, calls, same, row);
    busy = std::max(busy, s.end);
    if (same) {
      row.phases.back().end = busy;
    } else {
      row.phases.push_back(phase);
    }
  }
  AddGap(busy, run.trace_end, calls, false, row);
  return row;
}

// ---- Schedules ----

double UnitsOf(const Action& a, int chunks) { return (a.kind == Action::kBackward ? 2.0 : 1.0) / chunks; }

Pass PassOf(Action::Kind kind) {
  switch (kind) {
    case Action::kForward: return Pass::kForward;
    case Action::kBackward: return Pass::kBackward;
    case Action::kBackwardInput: return Pass::kBackwardInput;
    case Action::kBackwardWeights: return Pass::kBackwardWeights;
  }
  return Pass::kOther;
}

// Completion times of the passes of all parts of the model.
class Done {
 public:
  Done(const pipeline::PipelineShape& shape) : parts_(shape.stages * shape.chunks), stages_(shape.stages) {}

  // When the inputs of the action are ready; nullopt: not yet known.
  std::optional<double> Ready(int stage, const Action& a) const {
    const int part = a.chunk * stages_ + stage;
    if (a.kind == Action::kForward) return part == 0 ? 0 : At(true, part - 1, a.micro_batch);
    if (a.kind == Action::kBackwardWeights) return At(false, part, a.micro_batch);
    return part == parts_ - 1 ? At(true, part, a.micro_batch) : At(false, part + 1, a.micro_batch);
  }
  void Set(int stage, const Action& a, double end) {
    if (a.kind != Action::kBackwardWeights)
      done_[{a.kind == Action::kForward, a.chunk * stages_ + stage, a.micro_batch}] = end;
  }

 private:
  std::optional<double> At(bool forward, int part, int micro_batch) const {
    const auto it = done_.find({forward, part, micro_batch});
    return it == done_.end() ? std::nullopt : std::optional(it->second);
  }
  const int parts_, stages_;
  std::map<std::tuple<bool, int, int>, double> done_;  // keyed by forward (else backward), part, micro-batch
};

}  // namespace

std::string Phase::Label() const {
  if (pass == Pass::kOther) return "";
  std::string label = std::string(1, kLetters[static_cast<size_t>(pass)]);
  absl::StrAppend(&label, micro_batch);
  if (chunk > 0) absl::StrAppend(&label, ".", chunk);
  return label;
}

std::optional<Phase> PhaseOf(std::string_view label) {
  if (label.size() < 2 || kLetters.find(label[0]) == std::string_view::npos) return std::nullopt;
  Phase phase{.pass = static_cast<Pass>(kLetters.find(label[0]))};
  const size_t dot = std::min(label.find('.'), label.size());
  const std::string_view number = label.substr(1, dot - 1), chunk = dot < label.size() ? label.substr(dot + 1) : "0";
  if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &phase.micro_batch) ||
      !absl::SimpleAtoi(absl::string_view(chunk.data(), chunk.size()), &phase.chunk)) {
    return std::nullopt;
  }
  return phase;
}

ScheduleStory StoryOf(const RunData& run) {
  const MeshShape mesh = MeshOf(run.parallel);
  if (mesh.pp <= 1 || run.lanes.empty()) return {};
  ScheduleStory story{.title = run.Title(), .end = run.trace_end};
  const Shortest shortest = ShortestCalls(run.lanes);
  for (int stage = 0; stage < mesh.pp; ++stage) {
    const int rank = RankAt(mesh, {.pp = stage});
    const auto compute = std::find_if(run.lanes.begin(), run.lanes.end(),
                                      [&](const Lane& lane) { return lane.rank == rank && lane.stream == "compute"; });
    if (compute == run.lanes.end()) continue;
    story.rows.push_back(RowOf(run, *compute, shortest));
    story.rows.back().name =
        mesh.size() == mesh.pp ? absl::StrCat("stage ", stage) : absl::StrCat("stage ", stage, " (rank ", rank, ")");
  }
  return story;
}

std::vector<ScheduleStory> StoriesOf(const std::vector<const RunData*>& runs) {
  std::vector<ScheduleStory> stories;
  for (const RunData* run : runs) stories.push_back(StoryOf(*run));
  return stories;
}

ScheduleStory StoryOf(const std::vector<std::vector<Action>>& stages, const pipeline::PipelineShape& shape,
                      std::string title) {
  ScheduleStory story{.title = std::move(title), .seconds = false};
  Done done(shape);
  std::vector<double> free(stages.size(), 0);
  for (size_t s = 0; s < stages.size(); ++s) story.rows.push_back({.name = absl::StrCat("stage ", s)});
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s) {
      for (size_t next = story.rows[s].phases.size(); next < stages[s].size(); ++next) {
        const Action& a = stages[s][next];
        const std::optional<double> ready = done.Ready(static_cast<int>(s), a);
        if (!ready) break;
        const double start = std::max(*ready, free[s]);
        free[s] = start + UnitsOf(a, shape.chunks);
        done.Set(static_cast<int>(s), a, free[s]);
        story.rows[s].phases.push_back({PassOf(a.kind), a.micro_batch, a.chunk, start, free[s]});
        moved = true;
      }
      story.end = std::max(story.end, free[s]);
    }
  }
  for (size_t s = 0; s < stages.size(); ++s)
    TWOFOLD_CHECK(story.rows[s].phases.size() == stages[s].size(), "a valid schedule comes to its end");
  return story;
}

double BubbleOf(const ScheduleStory& story) {
  double busy = 0;
  for (const ScheduleRow& row : story.rows) {
    for (const Phase& phase : row.phases) busy += phase.end - phase.start;
  }
  const double all = story.end * static_cast<double>(story.rows.size());
  return all > 0 ? 1 - busy / all : 0;
}

}  // namespace twofold::pictures
