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
//   kParameters (ZeRO-3)  1/N of all                           all-gather 2 A (A for the root unit, which is kept from
//                                                              forward to backward; A for all units without
//                                                              reshard_after_forward); reduce-scatter A
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
// Use the lowest stage that fits. ZeRO-1, and ZeRO-2 without gradient accumulation, send no more bytes than DDP. ZeRO-3
// sends 1.5 times as many. Computing hides a unit's communication if the units that run meanwhile compute for longer.
// Limits: every parameter must receive a gradient in every backward pass. Parameters that modules share (tied
// embeddings) belong to the root unit.
//
// Pipeline parallelism: on a stage with several chunks of the model, there is no root. Each chunk is a unit that holds
// the parameters that no other unit in it holds; it is gathered 2 A times, like all units but the root. The root of a
// stage with one chunk is also gathered up to 2 A times, since each backward pass frees it. Units are prefetched only
// within a chunk.
// Expert parallelism: the experts of a block are a unit of their own inside the block's unit. For this unit, N is the
// number of ranks that hold the same experts. This cannot be combined with hybrid sharding.
//
// Overlap: parameters are gathered on one stream and gradients are reduced on another. Before a unit computes, the
// all-gathers of the next `prefetch` units start. A unit's gradients are reduced while backward computes the next unit.
// Under ZeRO-1 and 2 the updated parameters are gathered while the next step's forward pass begins; each unit waits
// only for its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/process_group.h"
#include "core/device/transfers.h"
#include "core/nn/context.h"
#include "strategies/data_parallel/flat_parameter.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/data_parallel/replica_buffers.h"
#include "strategies/data_parallel/wrapping.h"

namespace twofold {

struct ShardedOptions {
  enum Stage { kOptimizer = 1, kGradients = 2, kParameters = 3 } stage = kParameters;
  int shard_group = 0;           // number of consecutive ranks that share one copy; must divide the group. 0: all ranks
  WrapPolicy wrap;               // if empty, the root is the only unit
  DType gradient = DType::kF32;  // type in which gradients accumulate
  DType reduce = DType::kF32;    // type in which gradients are sent
  int64_t prefetch = 1;          // kParameters: units gathered ahead of the one that computes
  Bytes prefetch_limit;          // kParameters: most bytes of whole units gathered ahead and not used yet. 0: no limit
  bool reshard_after_forward = true;  // kParameters: free what forward gathered, and gather again for backward
  // kParameters: when backward starts the all-gather of the next unit. kPre: before this unit computes. kPost: after it
  // has computed, during the reduction of its gradients; this needs less memory. kNone: when the next unit is needed.
  enum BackwardPrefetch { kPre, kPost, kNone } backward_prefetch = kPre;
  bool reduce_every_micro_batch = true;  // ignored by kOptimizer, which keeps whole gradients and reduces once a step
  bool overlap = true;                   // false: waits for each call right after issuing it, for comparison
  bool offload = false;                  // kParameters: shards are kept in host memory
};

// One rank's part. Used from the rank's thread; `ctx` and `replicas` must outlive it.
class ShardedDataParallel final : public ParameterLayout {
 public:
  // Wraps the units of `chunks`, allocates what this rank keeps (Category::kParameters and kGradients), draws the
  // initial values of its shards from ctx.seed (no whole tensor ever exists under kParameters), and makes them equal on
  // all ranks. Collective over `replicas`. Throws OutOfMemory and what the communication throws.
  ShardedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas, ShardedOptions options);
  ~ShardedDataParallel() override;
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  void BeginStep() override;
  void BeginMicroBatch(bool last) override;
  void FinishGradients() override;
  void PublishUpdate() override;
  std::vector<optim::Slice> Slices() const override;  // one per unit: its shard
  ProcessGroup* shard_group(nn::Replicas replicas) override {
    const Sharing& sharing = SharingOf(replicas);
    return sharing.shards() > 1 ? sharing.reduce.get() : nullptr;
  }
  std::vector<Tensor> Gradients() const override;
  void AverageBuffers() override { buffers_->Average(); }

  // For tests and reports: the units in the order of the forward pass, the root first.
  struct UnitInfo {
    std::string path;
    int64_t numel, padded_numel;
  };
  std::vector<UnitInfo> units() const;

 private:
  class UnitModule;  // the wrapper around a unit: notifies this layout when the unit computes
  // The ranks that share the parameters of a unit: N = shards() ranks hold one shard each; R = replicas() such groups
  // exist.
  struct Sharing {
    Sharing(ProcessGroup& group, int shards, const char* of);
    int64_t shards() const { return gather->size(); }
    int64_t replicas() const { return replicate == nullptr ? 1 : replicate->size(); }
    std::unique_ptr<ProcessGroup> gather, reduce, replicate;
  };
  struct Unit {
    nn::Module* module = nullptr;
    std::string name;  // its path; "root" if it is the only chunk; "chunk 1" of several
    const Sharing* sharing = nullptr;
    bool root = false;
    std::optional<FlatParameter> flat;
    Tensor shard, gradient_shard;  // what this rank keeps; views into the whole tensors if those are kept
    Tensor parameters, gradients;  // whole and padded; empty while this rank does not hold them
    Tensor staged;                 // offload: the shard on the device, until it is gathered
    Transfer host_to_device;       // offload: the copy of the shard to `staged`
    Work gather;                   // the all-gather of the parameters
    bool gathering = false;
    bool used = false;                 // has computed since it was gathered, so it does not count as gathered ahead
    bool reduced = false;              // gradient_shard holds the mean of an earlier micro-batch of this step
    size_t chunk = 0;                  // index of the stage's chunk that the unit is in
    size_t forward = 0, backward = 0;  // its indices in forward_ and backward_
    size_t backward_last = 0;          // index in backward_ of the last unit inside this one
  };
  struct Reduction {  // of one unit's gradients
    Unit* unit;
    Tensor part;  // this rank's shard of the sum, in the reduce type
    Work work;
    Tensor sum = {};  // offload: the copy of gradient_shard on the device, if `part` is added to it
    Transfer host_to_device = {};
  };

  // This rank alone holds the unit, whole and on the device: nothing is gathered or reduced.
  bool Alone(const Unit& unit) const {
    return unit.sharing->shards() == 1 && unit.sharing->replicas() == 1 && !options_.offload;
  }
  bool KeepsParameters(const Unit& unit) const { return options_.stage < ShardedOptions::kParameters || Alone(unit); }
  bool KeepsGradients(const Unit& unit) const { return options_.stage < ShardedOptions::kGradients || Alone(unit); }
  const Sharing& SharingOf(nn::Replicas replicas) const {
    return experts_ && replicas == nn::Replicas::kExperts ? *experts_ : all_;
  }

  void Wrap();
  Unit* UnitOf(const nn::Module& module) const;
  void CollectForward(nn::Module& module, size_t chunk);
  void CollectBackward(nn::Module& module);
  void Allocate(Unit& unit);
  void Draw(Unit& unit);

  // Called around a unit's passes.
  void BeforeForward(Unit& unit);
  void BeforeForwardAgain(Unit& unit);  // recomputation: the parameters stay until the unit's backward pass
  void AfterForward(Unit& unit, bool training);
  void BeforeBackwardInput(Unit& unit);
  void AfterBackwardInput(Unit& unit);
  void BeforeBackwardWeights(Unit& unit);
  void AfterBackwardWeights(Unit& unit);

  void Fetch(Unit& unit);  // offload: starts to copy the shard to the device
  // Offload: from `place` on, fetches the first unit whose parameters are not on the device.
  void BringNext(const std::vector<Unit*>& order, size_t place);
  void Gather(Unit& unit);  // starts the all-gather unless the parameters are here
  void GatherAhead(const std::vector<Unit*>& order, size_t place);
  void Use(Unit& unit);  // waits for the all-gather
  void Reshard(Unit& unit);
  void PrepareGradients(Unit& unit);
  void Reduce(Unit& unit);
  void AdvanceReductions();  // moves each reduction in flight to its next stage
  void Store(Reduction reduction);
  void StoreOnHost(Reduction reduction);

  nn::Context& ctx_;
  const ShardedOptions options_;
  const Sharers sharers_;
  const Sharing all_;
  std::optional<Sharing> experts_;  // set if ranks hold different experts
  std::vector<std::unique_ptr<Unit>> units_;
  std::map<const nn::Module*, Unit*> unit_of_;  // by wrapper; units with parameters of their own
  std::vector<Unit*> forward_, backward_;       // in the order in which they compute
  std::unique_ptr<ReplicaBuffers> buffers_;
  std::optional<Reduction> scattering_, replicating_;
  std::optional<TransferStream> in_, out_;  // offload: host to device, and device to host
  Transfer storing_;                        // offload: the copy of the last gradient shard to the host
  bool sync_ = true;                        // this micro-batch's gradients are reduced
};

}  // namespace twofold
