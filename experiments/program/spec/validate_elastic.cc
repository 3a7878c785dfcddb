// Checks train.elastic: its numbers, and what it can be combined with.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

constexpr char kElasticPath[] = "train.elastic";
constexpr int64_t kMostReplicas = 1 << 20;

std::string At(std::string_view field) { return StrCat(kElasticPath, ".", field); }

void CheckReplicas(const spec::Spec& spec, Problems& problems) {
  const spec::Elastic& e = spec.train().elastic();
  const int64_t dp = spec.parallel().dp();
  problems.Whole(At("min_dp"), e.min_dp(), 1, std::max<int64_t>(1, dp));
  problems.Whole(At("max_dp"), e.max_dp(), std::max<int64_t>(1, dp), kMostReplicas);
  problems.Whole(At("spare_replicas"), e.spare_replicas(), 0, kMostReplicas);
  problems.Whole(At("shard_copies"), e.shard_copies(), 0, 1);
  problems.Above(At("reform_timeout_s"), e.reform_timeout_s(), 0);
}

void CheckEvents(const spec::Spec& spec, Problems& problems) {
  const spec::Elastic& e = spec.train().elastic();
  int64_t members = RanksToStart(spec);
  for (const spec::MembershipEvent& event : e.events()) members += std::max<int64_t>(0, event.join());
  for (int i = 0; i < e.events_size(); ++i) {
    const spec::MembershipEvent& event = e.events(i);
    const std::string path = At(StrCat("events[", i, "]"));
    if (event.when_case() == spec::MembershipEvent::WHEN_NOT_SET)
      problems.Add(path, "says not when; use step: 10, or at_s: 20");
    if (event.has_step()) problems.Whole(path + ".step", event.step(), 0, int64_t{1} << 40);
    if (event.has_at_s()) problems.AtLeast(path + ".at_s", event.at_s(), 0);
    if (event.lose().empty() && event.join() <= 0) problems.Add(path, "changes nothing; use lose: [3], or join: 1");
    if (event.has_join()) problems.Whole(path + ".join", event.join(), 0, kMostReplicas);
    const std::string fabric = FabricName(spec);
    const bool sites =
        fabric == "in_memory" ? spec.fabric().in_memory().has_sites() : spec.fabric().simulated().has_sites();
    if (sites && event.join() > 0) {
      problems.Add(path + ".join", "says not at which of fabric.", fabric,
                   ".sites the new ranks are, which are divided in order and evenly; leave one of them out, or use "
                   "spare_replicas");
    }
    const bool processes = fabric == "gloo" || fabric == "nccl";
    // Rank 0's process holds the control plane.
    const int64_t last =
        processes ? kMostReplicas : members - 1;  // launch starts processes that the spec does not name
    for (const int64_t rank : event.lose()) problems.Whole(path + ".lose", rank, processes ? 1 : 0, last);
    if (processes && event.join() > 0) {
      problems.Add(path + ".join", fabric == "gloo" ? "starts no processes; start them with TWOFOLD_JOIN=1, or use "
                                                      "`twofold launch --replace`"
                                                    : "is not possible on fabric nccl, where no process can join a "
                                                      "run; use spare_replicas");
    }
  }
}

// Where the state of a lost rank can be had from.
void CheckCopies(const spec::Spec& spec, Problems& problems) {
  const spec::Elastic& e = spec.train().elastic();
  const spec::Parallel& p = spec.parallel();
  const bool sharded = p.sharding() != spec::Parallel::NO_SHARD && p.sharding() != spec::Parallel::HYBRID_SHARD;
  if (e.shard_copies() > 0) {
    if (!sharded) {
      problems.Add(At("shard_copies"),
                   "copies shards, but parallel.sharding: ", spec::Parallel::Sharding_Name(p.sharding()),
                   p.sharding() == spec::Parallel::NO_SHARD ? " has none" : " has copies in other groups",
                   "; use ZERO_1, ZERO_2 or ZERO_3, or 0");
    }
    if (p.ep() > 1) problems.Add(At("shard_copies"), "cannot copy experts' shards (parallel.ep = ", p.ep(), "); use 0");
    if (p.offload() != spec::Parallel::NO_OFFLOAD)
      problems.Add(At("shard_copies"), "needs the state on the device; use parallel.offload: NO_OFFLOAD, or 0");
  }
  const bool saves = spec.train().has_checkpoint() && spec.train().checkpoint().has_every_steps();
  if (e.on_loss() == spec::Elastic::CHECKPOINT && !saves) {
    problems.Add(At("on_loss"),
                 "CHECKPOINT goes on from the last checkpoint, but none is saved; use train.checkpoint { "
                 "every_steps: 100 }, or PEERS");
  } else if (sharded && e.shard_copies() == 0 && !saves) {
    problems.Add(At("on_loss"), "PEERS needs a copy of each shard, and parallel.sharding: ",
                 spec::Parallel::Sharding_Name(p.sharding()),
                 " has none; use shard_copies: 1, or train.checkpoint { every_steps: 100 }");
  }
}

void CheckCosts(const spec::Spec& spec, Problems& problems) {
  constexpr char kPath[] = "fabric.simulated.membership";
  if (!spec.train().has_elastic())
    return problems.Add(kPath, "has no effect without train.elastic; leave it out, or add train { elastic {} }");
  const spec::MembershipCosts& costs = spec.fabric().simulated().membership();
  problems.AtLeast(StrCat(kPath, ".detect_s"), costs.detect_s(), 0);
  problems.AtLeast(StrCat(kPath, ".reform_s"), costs.reform_s(), 0);
  problems.AtLeast(StrCat(kPath, ".arrive_s"), costs.arrive_s(), 0);
}

void CheckElasticCombinations(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  const auto refuse = [&problems](std::string_view what, std::string_view instead) {
    problems.Add(kElasticPath, "cannot be combined with ", what, "; ", instead);
  };
  const std::string fabric = FabricName(spec);
  // There, only `launch --restarts` heeds the other fields.
  if (fabric == "mpi") {
    const spec::Elastic& e = train.elastic();
    for (const auto& [field, set] : {std::pair("spare_replicas", e.spare_replicas() > 0),
                                     {"events", e.events_size() > 0},
                                     {"shard_copies", e.shard_copies() > 0}}) {
      if (set)
        problems.Add(At(field), "has no use on fabric ", fabric,
                     ", which survives no lost rank; leave it out, or use "
                     "fabric gloo, nccl, in_memory or simulated");
    }
  }
  if (fabric == "in_memory" && spec.device() == spec::CUDA) refuse("device: CUDA", "use CPU or EMULATED");
  if (spec.parallel().has_zero_plus_plus()) refuse("parallel.zero_plus_plus", "leave one of them out");
  if (train.has_local_update()) refuse("train.local_update", "leave one of them out");
  if (train.optimizer().has_one_bit_adam()) refuse("train.optimizer.one_bit_adam", "use adamw");
  if (train.checkpoint().on_signal())
    refuse("train.checkpoint.on_signal", "leave it out; a checkpoint every few steps serves, too");
  if (train.validation().patience() > 0) refuse("train.validation.patience", "use patience: 0");
  if (train.report_loss_every() != 1) refuse("train.report_loss_every", "use 1: every step waits for all ranks anyway");
}

// What compression has left out belongs to ranks, which must train the same elements after a change.
void CheckCompressed(const spec::Spec& spec, Problems& problems) {
  const spec::Parallel& p = spec.parallel();
  if (!p.has_compression()) return;
  const auto refuse = [&problems](const std::string& where, std::string_view why, std::string_view instead) {
    problems.Add(kElasticPath, "cannot be combined with parallel.compression ", where, ", ", why, "; ", instead,
                 ", or leave one of them out");
  };
  if (p.sharding() != spec::Parallel::NO_SHARD) {
    refuse(StrCat("under parallel.sharding: ", spec::Parallel::Sharding_Name(p.sharding())),
           "where a change of the ranks moves what was left out of each shard's mean", "use NO_SHARD");
  }
  if (p.tp() > 1 || p.pp() > 1 || p.cp() > 1 || p.ep() > 1)
    refuse("and tp, pp, cp or ep", "since ranks may get other parts of the model after a loss", "use dp alone");
  if (p.compression().top_k().momentum_correction())
    refuse("{ top_k { momentum_correction: true } }", "whose momentum a lost step would change", "use false");
}

}  // namespace

void CheckElastic(const spec::Spec& spec, Problems& problems) {
  if (spec.fabric().simulated().has_membership()) CheckCosts(spec, problems);
  if (!spec.train().has_elastic() || spec.parallel().dp() < 1) return;
  CheckReplicas(spec, problems);
  CheckEvents(spec, problems);
  CheckCopies(spec, problems);
  CheckElasticCombinations(spec, problems);
  CheckCompressed(spec, problems);
}

}  // namespace twofold
