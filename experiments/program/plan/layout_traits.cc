#include "experiments/program/plan/layout_traits.h"

#include <algorithm>

#include "core/proto/world_size.h"
#include "strategies/from_spec.h"

namespace twofold::plan {

using spec::Parallel;

pipeline::PipelineShape ShapeOf(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  return {.stages = static_cast<int>(p.pp()),
          .micro_batches = static_cast<int>(spec.train().global_batch() / (p.dp() * spec.train().micro_batch())),
          .chunks = static_cast<int>(p.virtual_stages())};
}

bool StepsDiffer(const spec::Spec& spec) {
  return spec.parallel().has_compression() || spec.train().optimizer().has_one_bit_adam();
}

bool GathersOrReducesAlways(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  return p.dp() * p.cp() > 1 && (p.reduce_every_micro_batch() || p.sharding() == Parallel::FULL_SHARD ||
                                 p.sharding() == Parallel::HYBRID_SHARD);
}

namespace {

// All ranks of a kind do the same on links that are alike.
bool RanksAreAlike(const spec::Spec& spec) {
  const spec::Simulated& simulated = spec.fabric().simulated();
  const spec::Routing& routing = spec.model().moe().routing();
  const bool uneven = spec.model().has_moe() && (routing.has_zipf() || routing.has_counts());
  return !uneven && !simulated.has_network() && !simulated.has_placement() && !simulated.has_sites() &&
         simulated.faults().empty() && spec.parallel().islands() <= 1 && !StepsDiffer(spec);
}

}  // namespace

int64_t FewestThatMeet(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const int64_t world = WorldSize(spec), replicas = p.dp() * p.cp();
  if (spec.train().clip_norm() == 0 || !RanksAreAlike(spec)) return 0;
  // Only a stage's ranks come at equal times; of those along cp, whose parts of the causal mask differ, the ones at one
  // place.
  int64_t fewest = world / p.pp();
  if (p.cp() > 1 && GathersOrReducesAlways(spec)) fewest = std::min(fewest, p.dp());
  if (fewest == 1) return 0;
  const int64_t shards = p.sharding() == Parallel::HYBRID_SHARD ? std::max<int64_t>(1, p.shard_group()) : 1;
  const int64_t near = std::max<int64_t>(1, p.zero_plus_plus().secondary_shard());
  // Sums of the heads that ranks along tp share are brief: they have ended before anyone asks for them.
  const int64_t of_table =
      ModelOf(spec.model())->shape().tied && p.pp() > 1 ? 2 : 1;  // which the first and the last stage share
  for (const int64_t n : {p.pp(), p.tp(), p.cp(), p.ep(), p.dp() / p.ep(), replicas, replicas / p.ep(), shards,
                          replicas / shards, near, replicas / near, of_table}) {
    if (n > 1) fewest = std::min(fewest, n);
  }
  return fewest;
}

}  // namespace twofold::plan
