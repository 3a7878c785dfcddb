#include "experiments/program/plan/fewer_micro_batches.h"

#include <cmath>
#include <numeric>

#include "experiments/program/spec/spec.h"

namespace twofold::plan {

std::optional<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec) {
  const spec::Parallel& parallel = spec.parallel();
  const int64_t pp = parallel.pp();
  if (parallel.schedule() == spec::Parallel::GPIPE && pp > 1) return std::nullopt;
  if (spec.fabric().simulated().network().jitter() > 0 || parallel.has_compression() ||
      spec.train().optimizer().has_one_bit_adam())
    return std::nullopt;
  const FewerMicroBatches of{.whole = AccumulationSteps(spec), .steps = {pp, 2 * pp, 3 * pp, 4 * pp, 4 * pp}};
  if (std::accumulate(of.steps.begin(), of.steps.end(), int64_t{0}) >= 2 * of.whole) return std::nullopt;
  return of;
}

double Extend(const FewerMicroBatches& of, double second, double third, double last) {
  const auto groups = static_cast<double>(of.whole - of.steps[3]) / static_cast<double>(of.steps[3] - of.steps[2]);
  return last + (third - second) * groups;
}

bool OnALine(const FewerMicroBatches& of, const std::array<double, 3>& seconds) {
  const double bend = (seconds[2] - seconds[1]) - (seconds[1] - seconds[0]);  // of the time of a group
  const double whole = Extend(of, seconds[1], seconds[2], seconds[2]);
  return std::abs(Extend(of, 0, bend, 0)) <= kExtensionError / 10 * whole;
}

}  // namespace twofold::plan
