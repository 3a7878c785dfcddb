#include "sim/phase_sample.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace twofold::sim {
namespace {

bool Alike(const Phase& a, const Phase& b) {
  if (a.flows.size() != b.flows.size() || a.rounds != b.rounds || a.seconds != b.seconds) return false;
  return a.flows.empty() ||
         (a.flows.first_bytes() == b.flows.first_bytes() && a.flows.last_bytes() == b.flows.last_bytes());
}

}  // namespace

std::vector<PhaseSample> EveryPhase(const Schedule& schedule) {
  std::vector<PhaseSample> sample;
  for (size_t p = 0; p < schedule.phases.size(); ++p) sample.push_back({p, 1});
  return sample;
}

std::vector<PhaseSample> SamplePhases(const Schedule& schedule, uint64_t seed, size_t most) {
  const std::vector<Phase>& phases = schedule.phases;
  const PhiloxKey key = MakeKey(seed, "phases");
  std::vector<PhaseSample> sample;
  for (size_t begin = 0, end = 0; begin < phases.size(); begin = end) {
    while (end < phases.size() && Alike(phases[begin], phases[end])) ++end;
    const size_t count = end - begin, flows = std::max<size_t>(1, phases[begin].flows.size());
    const size_t enough = std::max(kLeastStrata, std::min(kManyStrata, kManyFlows / flows));
    const size_t strata = count * flows <= most ? count : std::min(count, std::max(enough, most / flows));
    for (size_t s = 0; s < strata; ++s) {
      const size_t first = begin + count * s / strata, last = begin + count * (s + 1) / strata;
      const uint64_t drawn = (Philox(key, first)[0] * static_cast<uint64_t>(last - first)) >> 32;
      sample.push_back({first + drawn, static_cast<double>(last - first)});
    }
  }
  return sample;
}

// Of neighbours that both stand for others, since their phases are alike or nearly so. (Neighbours of two runs add what
// these differ by: more than the error, never less.)
double StandardErrorOf(std::span<const PhaseSample> sample, std::span<const double> seconds) {
  TWOFOLD_CHECK_EQ(sample.size(), seconds.size());
  double squares = 0, pairs = 0, variance_of_units = 0;
  for (size_t s = 0; s < sample.size(); ++s) {
    if (sample[s].stands_for == 1) continue;
    variance_of_units += sample[s].stands_for * (sample[s].stands_for - 1);  // times the variance within the stratum
    if (s + 1 == sample.size() || sample[s + 1].stands_for == 1) continue;
    squares += (seconds[s] - seconds[s + 1]) * (seconds[s] - seconds[s + 1]) / 2, ++pairs;
  }
  return pairs > 0 ? std::sqrt(squares / pairs * variance_of_units) : 0;
}

}  // namespace twofold::sim
