// Sharded data parallelism: ranks share the batch as in DDP, but each keeps only a shard of the optimizer state
// (ZeRO-1), also of the gradients (ZeRO-2), or also of the parameters (ZeRO-3, FSDP). Whole tensors are gathered where
// they are used.
//   Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC20: section 5.
//   Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 16(12): sections 3, 4.
//
// The model is divided into units (wrapping.h). The root is a unit, too; it holds the parameters that no other unit
// holds. The parameters of a unit form one flat tensor of N equal shards (flat_parameter.h). N ranks share one copy;
// Psi is the bytes of all parameters, and A the number of micro-batches a step:
//   stage                 memory: each rank keeps              communication a step, each way, times Psi (N - 1) / N
//   kOptimizer (ZeRO-1)   parameters, gradients, 1/N of state  reduce-scatter 1; all-gather 1, after the update
//   kGradients (ZeRO-2)   parameters, 1/N of the rest          reduce-scatter A; all-gather 1, after the update
//   kParameters (ZeRO-3)  1/N of all                           all-gather 2 A (A for the root and the last unit, which
//                                                              stay gathered from forward to backward; A for all
//                                                              units without reshard_after_forward); reduce-scatter A
//   memory         in addition, at its peak a rank holds the whole gradients of the root and of two more units (ZeRO-2
//                  and 3), and the whole parameters of the root, of the unit that computes and of the units gathered
//                  ahead (ZeRO-3). Without reduce_every_micro_batch, whole gradients are kept between micro-batches
//   communication  without reduce_every_micro_batch, the A reduce-scatters become 1. At the start, under ZeRO-1 and 2,
//                  every rank draws the values of its shard and all-gathers the others: Psi (N - 1) / N bytes each way.
//                  Under ZeRO-3 each element is drawn by one rank, and nothing is sent
//   compute        that of DDP; an optimizer step on 1/N of the elements
// Hybrid sharding (Zhao et al., section 3.2.2) is ZeRO-3 within a shard group of N ranks, e.g. a node. The ranks at the
// same position in each of the R groups all-reduce their gradient shards: 2 Psi / N (R - 1) / R bytes, the only traffic
// between groups. At the start, R ranks draw the same elements. The first of them broadcasts its values to the others,
// Psi / N bytes, so all ranks start from equal values even if their math libraries differ. (Buffers start from
// constants and are not drawn.)
// Offload (kParameters): the shards of parameters and gradients are kept in host memory. Let P and G be the bytes of a
// rank's shards of parameters and gradients. A step copies P bytes to the device for every all-gather above, (A - 1) G
// bytes to the device to accumulate gradients, and A G bytes back. Besides its state, the optimizer's update copies
// P + G bytes to the device and P bytes back. Clipping copies G bytes to the device. A shard's copy starts before its
// all-gather, while the all-gather of the unit before it is running.
// ZeRO++ (kParameters): parameters may be gathered in other ways (parameter_gather.h, strategies/zero_plus_plus).
// Use the lowest stage that fits. ZeRO-1, and ZeRO-2 without gradient accumulation, send no more bytes than DDP. ZeRO-3
// sends 1.5 times as many. Computing hides a unit's communication if the units that run meanwhile compute for longer.
// The last unit: backward begins where forward ends, so a unit that no other unit follows would be freed only to be
// gathered again at once. It stays, and so do the units around it (of a mixture of experts, the last block and its
// experts). This holds if each micro-batch's backward pass directly follows its forward pass. In a pipeline it may not:
// there, the last unit is freed like all others.
// Limits: every parameter must receive a gradient in every backward pass. Parameters that modules share (tied
// embeddings) belong to the root unit.
//
// Pipeline parallelism: on a stage with several chunks of the model, there is no root. Each chunk is a unit that holds
// the parameters that no other unit in it holds; it is gathered 2 A times, like all units of a stage. The root of a
// stage with one chunk is also gathered up to 2 A times, since each backward pass frees it. Units are prefetched only
// within a chunk.
// All parameters of a unit have the same replicas (nn::Parameter::replicas), whose number is then N for this unit: the
// policy must make units of their own of experts that are not the same on all ranks. Hybrid sharding cannot do this.
//
// Overlap: parameters are gathered on one stream and gradients are reduced on another. Before a unit computes, the
// all-gathers of the next `prefetch` units start. A unit's gradients are reduced while backward computes the next unit;
// under ZeRO-1, whose whole gradients are kept, while it computes all that follow. Under ZeRO-1 and 2 the updated
// parameters are gathered while the next step's forward pass begins; each unit waits only for its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/data_parallel/mean_reducer.h"
#include "strategies/data_parallel/offload.h"
#include "strategies/data_parallel/reduction_pipeline.h"
#include "strategies/data_parallel/replica_buffers.h"
#include "strategies/data_parallel/sharded_units.h"
#include "strategies/data_parallel/wrapping.h"

namespace twofold {

struct ShardedOptions {
  enum Stage { kOptimizer = 1, kGradients = 2, kParameters = 3 } stage = kParameters;
  int shard_group = 0;  // number of consecutive ranks that share one copy; must divide the group. 0: all ranks
  // kParameters: number of consecutive ranks of a shard group that gather (reduce) among themselves, if make_gather
  // (make_reducer) has them do so; must divide it. 0: none
  int gather_near = 0, reduce_near = 0;
  WrapPolicy wrap;               // if empty, the root is the only unit
  DType gradient = DType::kF32;  // type in which gradients accumulate
  DType reduce = DType::kF32;    // type of the reducer's means
  int64_t prefetch = 1;          // kParameters: units gathered ahead of the one that computes
  Bytes prefetch_limit;          // kParameters: most bytes of whole units gathered ahead and not used yet. 0: no limit
  bool reshard_after_forward = true;  // kParameters: free what forward gathered, and gather again for backward
  bool pipeline_stage = false;        // passes of other micro-batches may come between a micro-batch's two passes
  // kParameters: when backward starts the all-gather of the next unit. kPre: before this unit computes. kPost: after it
  // has computed, during the reduction of its gradients; this needs less memory. kNone: when the next unit is needed.
  enum BackwardPrefetch { kPre, kPost, kNone } backward_prefetch = kPre;
  bool reduce_every_micro_batch = true;  // ignored by kOptimizer, which keeps whole gradients and reduces once a step
  bool overlap = true;                   // false: waits for each call right after issuing it, for comparison
  bool offload = false;                  // kParameters: shards are kept in host memory
};

// One rank's part. Used from the rank's thread; `ctx` and `replicas` must outlive it.
class ShardedDataParallel final : public ParameterLayout, private UnitObserver {
 public:
  // Wraps the units of `chunks`, allocates what this rank keeps (Category::kParameters and kGradients), draws the
  // initial values of its shards from ctx.seed (no whole tensor ever exists under kParameters), and makes them equal on
  // all ranks. Collective over `replicas`. `make_reducer`: if empty, gradients are averaged in the type options.reduce.
  // `make_gather`: how kParameters gathers.
  // Throws OutOfMemory and what the communication throws.
  ShardedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas, ShardedOptions options,
                      MakeReducer make_reducer = {}, MakeGather make_gather = PlainGathers());
  ~ShardedDataParallel() override;
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  void BeginStep(double loss_scale = 1) override;
  void BeginMicroBatch(bool last) override;
  void FinishGradients() override;
  void SkipUpdate() override { pipeline_.Skip(); }
  void PublishUpdate() override;
  std::vector<optim::Slice> Slices() const override;  // one per unit: its shard
  ProcessGroup* shard_group(nn::GroupTag replicas) override {
    const Sharing& sharing = SharingOf(replicas);
    return sharing.shards() > 1 ? sharing.reduce.get() : nullptr;
  }
  std::vector<std::vector<optim::SlicePart>> PartsOfShard(int shard) const override;
  std::vector<FlatGradient> Gradients() const override;
  bool TellShardsApart(PartTraits traits, const std::string& why, bool briefly) override;
  std::vector<NamedState> ReducerStates() const override { return pipeline_.States(); }
  void AverageBuffers() override { buffers_->Average(); }

  // For tests and reports: the units in the order of the forward pass, the root first.
  struct UnitInfo {
    std::string path;
    int64_t numel, padded_numel;
  };
  std::vector<UnitInfo> units() const;

 private:
  // This rank alone holds the unit, whole and on the device: nothing is gathered or reduced.
  bool Alone(const ShardedUnit& unit) const {
    return unit.sharing->shards() == 1 && unit.sharing->replicas() == 1 && !options_.offload;
  }
  bool KeepsParameters(const ShardedUnit& unit) const {
    return options_.stage < ShardedOptions::kParameters || Alone(unit);
  }
  // Where whole gradients are kept and are reduced in their place, waiting for sums in flight would free nothing.
  bool SumsStayInFlight(const ShardedUnit& unit) const {
    return options_.stage < ShardedOptions::kGradients &&
           (!pipeline_.Reduces(unit.forward) || pipeline_.InPlace(unit.forward));
  }
  bool KeepsGradients(const ShardedUnit& unit) const {
    return options_.stage < ShardedOptions::kGradients || Alone(unit);
  }
  const Sharing& SharingOf(nn::GroupTag replicas) const {
    const auto found = others_.find(replicas);
    return found == others_.end() ? all_ : found->second;
  }

  void Allocate(ShardedUnit& unit, const MakeGather& make_gather);
  void Draw(ShardedUnit& unit);
  void AddBucket(ShardedUnit& unit);
  void TellSumsApart();
  // Visits the shards with elements that several ranks of a copy of the model hold, unit by unit.
  void ForShared(absl::FunctionRef<void(const ShardedUnit& unit, int64_t shard)> visit) const;

  void BeforeForward(ShardedUnit& unit) override;
  void BeforeForwardAgain(ShardedUnit& unit) override;
  void AfterForward(ShardedUnit& unit, bool training) override;
  void BeforeBackwardInput(ShardedUnit& unit) override;
  void AfterBackwardInput(ShardedUnit& unit) override;
  void BeforeBackwardWeights(ShardedUnit& unit) override;
  void AfterBackwardWeights(ShardedUnit& unit) override;

  void Gather(ShardedUnit& unit);  // starts the all-gather unless the parameters are here
  void GatherAhead(const std::vector<ShardedUnit*>& order, size_t place);
  // Offload: from `place` on, fetches the first unit whose parameters are not on the device.
  void FetchNext(const std::vector<ShardedUnit*>& order, size_t place);
  void Use(ShardedUnit& unit);  // waits for the all-gather
  void Reshard(ShardedUnit& unit);
  void PrepareGradients(ShardedUnit& unit);
  void Reduce(ShardedUnit& unit);
  void AdvanceReductions();
  void FinishReductions();

  nn::Context& ctx_;
  const ShardedOptions options_;
  const ReplicaGroups groups_;
  const Sharing all_;
  std::map<nn::GroupTag, Sharing> others_;  // of the parameters whose replicas are not all ranks
  std::optional<HostShards> host_;          // set if shards are offloaded
  std::optional<ShardedUnits> units_;
  std::unique_ptr<ReplicaBuffers> buffers_;
  ReductionPipeline pipeline_;
  bool last_ = true;  // this micro-batch is the step's last
  bool sync_ = true;  // its gradients are reduced
};

}  // namespace twofold
