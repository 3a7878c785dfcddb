#include "experiments/program/plan/small_job.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

// Sets the number of blocks of a model that has one. False: it has none.
bool SetBlocks(int64_t blocks, spec::Model& model) {
  model.clear_preset();
  if (model.has_gpt()) return model.mutable_gpt()->set_layers(blocks), true;
  if (model.has_llama()) return model.mutable_llama()->set_layers(blocks), true;
  if (!model.has_moe() || model.moe().routing().has_counts()) return false;
  return model.mutable_moe()->mutable_llama()->set_layers(blocks), true;
}

}  // namespace

int64_t PeriodOf(const spec::Spec& spec) {
  const int64_t every = std::max<int64_t>(1, spec.train().activation_checkpointing().every());
  return spec.model().has_moe() ? std::lcm(every, std::max<int64_t>(1, spec.model().moe().every())) : every;
}

std::optional<spec::Spec> SmallJob(const spec::Spec& spec, int64_t periods) {
  if (spec.parallel().wrap().has_paths()) return std::nullopt;
  const int64_t period = PeriodOf(spec) * periods;
  spec::Spec small = spec;
  if (!SetBlocks(kSmallStages * period, *small.mutable_model())) return std::nullopt;
  Parallel& p = *small.mutable_parallel();
  p.set_pp(kSmallStages), p.set_dp(p.ep()), p.set_virtual_stages(1), p.set_islands(1);
  p.clear_stage_layers(), p.clear_stage_balance(), p.clear_compression(), p.clear_zero_plus_plus();
  p.set_scatter_gather_messages(false);
  if (p.schedule() != Parallel::ZERO_BUBBLE_H1) p.set_schedule(Parallel::ONE_F_ONE_B);
  if (p.sharding() != Parallel::NO_SHARD) p.set_sharding(Parallel::ZERO_1), p.set_reduce_every_micro_batch(false);
  for (const char* field : {"shard_group", "offload", "prefetch", "prefetch_limit_mib", "reshard_after_forward",
                            "backward_prefetch", "bucket_mib"})
    p.GetReflection()->ClearField(&p, Parallel::descriptor()->FindFieldByName(field));
  spec::Train& train = *small.mutable_train();
  train.set_global_batch(kSmallMicroBatches * p.dp() * train.micro_batch());
  train.clear_epochs();
  // Of which axes only those inside of ep's matter: ranks are elsewhere, but as far from each other.
  if (p.ep() == 1 && absl::EndsWith(p.order(), "cp tp")) p.set_order("pp dp cp tp");
  small.clear_name(), small.clear_trace(), small.clear_memory();
  return small;
}

}  // namespace twofold::plan
