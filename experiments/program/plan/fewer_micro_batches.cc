#include "experiments/program/plan/fewer_micro_batches.h"

#include <cmath>

#include "experiments/program/spec/spec.h"

namespace twofold::plan {

std::optional<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec) {
  const spec::Parallel& parallel = spec.parallel();
  const int64_t pp = parallel.pp();
  if (parallel.schedule() == spec::Parallel::GPIPE && pp > 1) return std::nullopt;
  if (spec.fabric().simulated().network().jitter() > 0 || parallel.has_compression() ||
      spec.train().optimizer().has_one_bit_adam())
    return std::nullopt;
  const FewerMicroBatches of{.whole = AccumulationSteps(spec), .few = {2 * pp, 3 * pp, 4 * pp}};
  if (of.few[0] + of.few[1] + of.few[2] >= of.whole) return std::nullopt;
  return of;
}

spec::Spec WithMicroBatches(spec::Spec spec, const FewerMicroBatches& of, int64_t micro_batches) {
  spec.mutable_train()->set_global_batch(spec.train().global_batch() / of.whole * micro_batches);
  return spec;
}

double Extend(const FewerMicroBatches& of, double second, double third) {
  return third +
         (third - second) * static_cast<double>(of.whole - of.few[2]) / static_cast<double>(of.few[2] - of.few[1]);
}

bool OnALine(const FewerMicroBatches& of, const std::array<double, 3>& seconds) {
  const double group = static_cast<double>(of.few[1] - of.few[0]);
  const double bend = (seconds[2] - seconds[1]) - (seconds[1] - seconds[0]);  // of the time of such a group
  const double groups = static_cast<double>(of.whole - of.few[2]) / group;
  return std::abs(bend) * groups <= kExtensionError / 10 * Extend(of, seconds[1], seconds[2]);
}

}  // namespace twofold::plan
