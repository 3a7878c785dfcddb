// Checks train.async_sgd: its numbers, and what it can be combined with.
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

constexpr char kAsyncPath[] = "train.async_sgd";
constexpr int64_t kMostServers = 1024;
constexpr int64_t kMostStaleness = int64_t{1} << 31;

void CheckAsyncLayout(const spec::Spec& spec, Problems& problems) {
  const spec::Parallel& p = spec.parallel();
  for (const auto& [axis, size] : {std::pair("pp", p.pp()), {"tp", p.tp()}, {"cp", p.cp()}, {"ep", p.ep()}}) {
    if (size <= 1) continue;
    problems.Add(StrCat("parallel.", axis), size,
                 " splits a model over ranks, but a worker of train.async_sgd holds a whole one; use 1");
  }
  if (p.sharding() != spec::Parallel::NO_SHARD) {
    problems.Add(
        "parallel.sharding", spec::Parallel::Sharding_Name(p.sharding()),
        " shards state over ranks that wait for each other; the servers of train.async_sgd hold the optimizer's "
        "state instead. Use NO_SHARD");
  }
}

void CheckAsyncCombinations(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  const spec::Parallel& p = spec.parallel();
  const auto refuse = [&problems](bool set, std::string_view what, std::string_view why, std::string_view instead) {
    if (set) problems.Add(kAsyncPath, "cannot be combined with ", what, ", ", why, "; ", instead);
  };
  constexpr char kLeave[] = "leave one of them out";
  refuse(train.has_elastic(), "train.elastic", "since it does not replace lost workers or servers", kLeave);
  refuse(train.has_local_update(), "train.local_update", "whose islands meet at steps that all ranks count", kLeave);
  refuse(train.has_validation(), "train.validation", "for which all ranks would have to stop at one step",
         "validate a synchronous run, or compare losses");
  refuse(train.has_checkpoint(), "train.checkpoint", "since gradients are on their way at every step", "leave it out");
  refuse(train.has_resume(), "train.resume", "since it saves no checkpoints", "leave it out");
  refuse(train.report_loss_every() != 1, "train.report_loss_every",
         "since server 0 knows the loss of every update anyway", "use 1");
  refuse(train.precision().loss_scale().has_dynamic(), "a dynamic loss scale", "which all ranks must agree on",
         "use BF16, or loss_scale { fixed: 1024 }");
  refuse(train.optimizer().has_one_bit_adam(), "train.optimizer.one_bit_adam", "whose momenta ranks average together",
         "use adamw");
  refuse(p.has_compression(), "parallel.compression", "which encodes what ranks send to all others", kLeave);
  refuse(p.has_zero_plus_plus(), "parallel.zero_plus_plus", "which is for shards", kLeave);
  refuse(p.offload() != spec::Parallel::NO_OFFLOAD,
         StrCat("parallel.offload: ", spec::Parallel::Offload_Name(p.offload())),
         "since servers keep what could be offloaded", "use NO_OFFLOAD");
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  refuse(model != nullptr && model->synchronizes_statistics(), "model.cnn.sync_batch_norm",
         "for which all ranks meet in each layer", "use false");
}

// Every server's shard has parameters. The model's sizes are valid.
void CheckShards(const spec::Spec& spec, Problems& problems) {
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  const int64_t servers = spec.train().async_sgd().servers();
  if (model == nullptr || servers == 1) return;
  const int64_t parameters = ParameterCount(*model), shard = (parameters + servers - 1) / servers;
  if ((servers - 1) * shard >= parameters) {
    problems.Add(StrCat(kAsyncPath, ".servers"), servers, " are too many for a model of ", parameters,
                 " parameters; use fewer");
  }
}

void CheckGossip(const spec::Spec& spec, Problems& problems) {
  const spec::AsyncSgd& async = spec.train().async_sgd();
  const auto refuse = [&problems](bool set, std::string_view field, auto... text) {
    if (set) problems.Add(StrCat(kAsyncPath, ".", field), text...);
  };
  refuse(async.servers() != 0, "servers", async.servers(), " have no use in mode: GOSSIP; leave it out");
  refuse(async.staleness() != -1, "staleness", async.staleness(),
         " is a bound of parameter servers, and mode: GOSSIP has none; leave it out");
  refuse(async.staleness_aware(), "staleness_aware", "is for parameter servers; use false, or mode: PARAMETER_SERVER");
  refuse(spec.parallel().dp() < 2, "mode", "GOSSIP needs a partner, but parallel.dp = ", spec.parallel().dp(),
         "; use 2 or more");
  const spec::DType parameter = spec.train().precision().parameter();
  refuse(parameter != spec::F32 && parameter != spec::F64, "mode", "GOSSIP averages parameters, and ",
         spec::DType_Name(parameter), " would round each average; use train.precision.parameter: F32");
}

}  // namespace

void CheckAsyncSgd(const spec::Spec& spec, Problems& problems) {
  if (!spec.train().has_async_sgd()) return;
  const spec::AsyncSgd& async = spec.train().async_sgd();
  if (async.mode() == spec::AsyncSgd::GOSSIP) {
    CheckGossip(spec, problems);
  } else {
    const bool counted = problems.Whole(StrCat(kAsyncPath, ".servers"), async.servers(), 1, kMostServers);
    if (counted && problems.status().ok()) CheckShards(spec, problems);
    problems.Whole(StrCat(kAsyncPath, ".staleness"), async.staleness(), -1, kMostStaleness);
  }
  CheckAsyncLayout(spec, problems);
  CheckAsyncCombinations(spec, problems);
}

}  // namespace twofold
