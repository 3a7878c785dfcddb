#include "experiments/program/bubble.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "strategies/from_spec.h"

namespace twofold {
namespace {

// One rank's actions in one step, on the run's clock.
struct Actions {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  double working = 0;
};

// A label that comes again after other labels belongs to another step.
std::vector<Actions> ActionsOfSteps(const report::RankRecord& record) {
  std::vector<Actions> steps;
  std::set<std::string_view> seen;
  std::string_view current;
  double begin = 0, end = 0;
  const auto finish = [&] {
    if (current.empty()) return;
    Actions& step = steps.back();
    step.first = std::min(step.first, begin), step.last = std::max(step.last, end);
    step.working += end - begin;
  };
  for (const report::Span& span : record.spans()) {  // of one stream: sorted by start
    if (span.stream() != "compute") continue;
    if (span.label() != current) {
      finish();
      current = span.label();
      begin = span.start() + record.trace_origin_seconds();
      if (!current.empty() && (steps.empty() || !seen.insert(current).second)) {
        steps.emplace_back();
        seen = {current};
      }
    }
    end = span.end() + record.trace_origin_seconds();
  }
  finish();
  return steps;
}

struct StepOfAll {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  std::vector<double> working, ranks;  // by stage: the sum over its ranks, and their number

  void Add(const MeshShape& mesh, int64_t rank, const Actions& own, double of_ranks) {
    const auto stage = static_cast<size_t>(PlaceOf(mesh, static_cast<int>(rank)).pp);
    working.resize(static_cast<size_t>(mesh.pp)), ranks.resize(static_cast<size_t>(mesh.pp));
    first = std::min(first, own.first), last = std::max(last, own.last);
    working[stage] += of_ranks * own.working, ranks[stage] += of_ranks;
  }
};

// By step, as far as ranks were traced.
std::vector<StepOfAll> StepsOfTraces(const MeshShape& mesh, const RankRecords& records) {
  std::vector<StepOfAll> steps;
  for (const auto& [rank, record] : records.traced()) {
    const std::vector<Actions> own = ActionsOfSteps(record);
    steps.resize(std::max(steps.size(), own.size()));
    for (size_t i = 0; i < own.size(); ++i) steps[i].Add(mesh, rank, own[i], 1);
  }
  return steps;
}

// By steady step of a prediction.
std::vector<StepOfAll> StepsOfRecords(const MeshShape& mesh, const RankRecords& records, std::pair<int, int> steady) {
  std::vector<StepOfAll> steps(static_cast<size_t>(std::max(0, steady.second - steady.first)));
  for (const report::RankRecord& record : records.kept()) {
    for (const report::ActionTimes& actions : record.actions()) {
      const Actions own{.first = actions.first(), .last = actions.last(), .working = actions.working()};
      // Steps after the last one were counted, since they repeat it (steady_state.h).
      const bool last = &actions == &record.actions(record.actions_size() - 1);
      const int64_t place = actions.step() - 1 - steady.first;
      const int64_t end = last ? static_cast<int64_t>(steps.size()) : place + 1;
      for (int64_t p = std::max<int64_t>(0, place); p < std::min<int64_t>(end, steady.second - steady.first); ++p)
        steps[static_cast<size_t>(p)].Add(mesh, record.rank(), own, static_cast<double>(records.SharedBy(record)));
    }
  }
  return steps;
}

}  // namespace

double BubbleFraction(const spec::Spec& spec, const RankRecords& records, std::pair<int, int> steady) {
  const MeshShape mesh = MeshOf(spec.parallel());
  if (mesh.pp == 1) return 0;
  std::vector<StepOfAll> steps = StepsOfTraces(mesh, records);
  if (steps.empty()) steps = StepsOfRecords(mesh, records, steady);
  double sum = 0;
  int counted = 0;
  for (const StepOfAll& step : steps) {
    double working = 0;
    bool whole = step.last > step.first;
    for (size_t s = 0; s < step.working.size(); ++s) {
      whole = whole && step.ranks[s] > 0;
      if (whole) working += step.working[s] / step.ranks[s];
    }
    if (!whole) continue;
    sum += 1 - working / (mesh.pp * (step.last - step.first));
    ++counted;
  }
  return counted > 0 ? sum / counted : 0;
}

}  // namespace twofold
