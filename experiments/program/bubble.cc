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

}  // namespace

double BubbleFraction(const spec::Spec& spec, const RankRecords& records) {
  const MeshShape mesh = MeshOf(spec.parallel());
  if (mesh.pp == 1) return 0;
  struct Step {
    double first = std::numeric_limits<double>::infinity(), last = 0;
    std::vector<double> working, ranks;  // by stage: the sum over its ranks, and their number
  };
  std::vector<Step> steps;
  for (const auto& [rank, record] : records.traced()) {
    const auto stage = static_cast<size_t>(PlaceOf(mesh, static_cast<int>(rank)).pp);
    const std::vector<Actions> own = ActionsOfSteps(record);
    steps.resize(std::max(steps.size(), own.size()));
    for (size_t i = 0; i < own.size(); ++i) {
      Step& step = steps[i];
      step.working.resize(static_cast<size_t>(mesh.pp)), step.ranks.resize(static_cast<size_t>(mesh.pp));
      step.first = std::min(step.first, own[i].first), step.last = std::max(step.last, own[i].last);
      step.working[stage] += own[i].working, ++step.ranks[stage];
    }
  }
  double sum = 0;
  int counted = 0;
  for (const Step& step : steps) {
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
