// Sharded data parallelism: ranks share the batch as under DDP, and each keeps but a part of the optimizer's state, then of
// the gradients, then of the parameters. They are put together where they are used.
//   Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC20: section 5.
//   Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 16(12): sections 3 and 4.
//
// The model is cut into units (wrapping.h), the root being one with what no other holds; the parameters of a unit are one
// flat tensor of N equal shards (flat_parameter.h). With N ranks that share a copy, Psi bytes of parameters, and A
// micro-batches a step:
//   stage                    keeps, of the whole                  communicates a step, each way, in units of Psi (N - 1) / N
//   kOptimizer (ZeRO-1)      parameters, gradients, 1/N of state  reduce-scatter 1; all-gather 1, after the update
//   kGradients (ZeRO-2)      parameters, 1/N of the rest          reduce-scatter A; all-gather 1, after the update
//   kParameters (ZeRO-3)     1/N of all                           all-gather 2 A (of the root unit A, which is kept from forward
//                                                                 to backward; A of all without reshard_after_forward);
//                                                                 reduce-scatter A
// Without reduce_every_micro_batch, A reduce-scatters become 1, and whole gradients are kept between micro-batches. Beyond
// what is kept, a rank holds at its peak the gradients of the root and of two more units (ZeRO-2 and 3), and the parameters
// of the root, of the unit that computes and of those gathered ahead (ZeRO-3). Hybrid sharding (section 3.2.2) is ZeRO-3 among
// the N ranks of a shard group, e.g. of a node; ranks of equal place in the R groups add an all-reduce of their gradient
// shards, 2 Psi / N (R - 1) / R bytes: the only traffic between groups.
// At the start, once: under ZeRO-1 and 2 every rank draws the values of its shard and gathers the others', Psi (N - 1) / N bytes each
// way; under ZeRO-3 every element is drawn by one rank, and nothing is sent. Under hybrid sharding it is drawn by R ranks, which take
// the first one's: a broadcast of Psi / N. So no two ranks begin apart, whatever their mathematical libraries. (Buffers, the same
// constants everywhere, are not drawn.)
//   compute        that of DDP; an optimizer step on 1/N of the elements
// Offloaded (kParameters), the shards of parameters and gradients lie in the host's memory. With P and G bytes of them on a
// rank, a step brings P for every all-gather above and (A - 1) G for the sums of gradients to the device, and takes A G
// from there; the optimizer's update brings P + G beside its state and takes P, and clipping brings G. A shard starts its
// way before its all-gather does: while the gather of the unit before it goes on.
// Use the lowest stage that fits: ZeRO-1 costs no more communication than DDP; ZeRO-2 neither, without accumulation; ZeRO-3
// half as much again, which hides behind computing when a unit computes for longer than its neighbours travel. Limits:
// every parameter must receive a gradient in every backward pass; parameters that modules share (tied embeddings) are the
// root unit's. On a stage of a pipeline with several chunks of the model, each chunk is a unit, with what no other in it holds, gathered
// 2 A times as all but the root are; a stage's root is gathered up to 2 A times, too, since each backward pass frees it. Units are
// gathered ahead within a chunk alone.
//
// Where ranks hold different experts, those of a block are a unit of its own inside the block's: its N are the ranks that hold
// the same ones. Not with hybrid sharding.
//
// Overlap: parameters are gathered on one stream, gradients reduced on another. Before a unit computes, the next
// `prefetch` ones begin to travel; while the unit before it computes, its gradients are reduced. Under ZeRO-1 and 2 the
// updated parameters travel while the next step's forward pass begins: each unit waits for its own.
#pragma once

#include <cstdint>
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
  int shard_group = 0;  // ranks that share one copy: consecutive ones; divides the group. 0: all of them
  WrapPolicy wrap;      // none: the root is the only unit
  DType gradient = DType::kF32;  // of gradients as they add up
  DType reduce = DType::kF32;    // and on their way between ranks
  int64_t prefetch = 1;          // kParameters: units gathered ahead of the one that computes
  Bytes prefetch_limit;          // and how much of them, whole, may be held before they are used. 0: no limit
  bool reshard_after_forward = true;  // kParameters: free what forward gathered, and gather again for backward
  // kParameters: the next unit backward begins to travel before this one computes, or after it, beside the reduction of
  // its gradients (less memory), or when it is needed.
  enum BackwardPrefetch { kPre, kPost, kNone } backward_prefetch = kPre;
  bool reduce_every_micro_batch = true;  // kOptimizer, which keeps whole gradients, reduces once in any case
  bool overlap = true;           // false: every communication is waited for at once, for comparison
  bool offload = false;          // kParameters: shards lie in the host's memory
};

// One rank's part. Used from the rank's thread; `ctx` and `replicas` must outlive it.
class ShardedDataParallel final : public ParameterLayout {
 public:
  // Wraps the units of `model`, allocates what this rank keeps (Category::kParameters and kGradients), draws the initial
  // values of its shards from ctx.seed (no whole tensor ever exists under kParameters), and has all ranks begin with the same.
  // Collective over `replicas`. Throws OutOfMemory and what the communication throws.
  ShardedDataParallel(nn::Context& ctx, std::unique_ptr<nn::Module> model, const ReplicaGroups& replicas, ShardedOptions options);
  ~ShardedDataParallel() override;
  ShardedDataParallel(const ShardedDataParallel&) = delete;
  ShardedDataParallel& operator=(const ShardedDataParallel&) = delete;

  nn::Module& model() override { return *model_; }
  void BeginStep() override;
  void BeginMicroBatch(bool last) override;
  void FinishGradients() override;
  void PublishUpdate() override;
  std::vector<optim::Slice> Slices() const override;  // one a unit: its shard
  ProcessGroup* shard_group(nn::Replicas replicas) override {
    const Sharing& sharing = SharingOf(replicas);
    return sharing.shards() > 1 ? sharing.reduce.get() : nullptr;
  }
  std::vector<Tensor> Gradients() const override;
  void AverageBuffers() override { buffers_->Average(); }

  // For tests and reports: the units in the order of the forward pass, the root first.
  struct UnitInfo { std::string path; int64_t numel, padded_numel; };
  std::vector<UnitInfo> units() const;

 private:
  class UnitModule;  // what is put around a unit: tells this layout when it computes
  // Ranks that share the parameters of a unit: N = shards() have a part each, R = replicas() of these groups the same parts.
  struct Sharing {
    Sharing(ProcessGroup& group, int shards, const char* of);
    int64_t shards() const { return gather->size(); }
    int64_t replicas() const { return replicate == nullptr ? 1 : replicate->size(); }
    std::unique_ptr<ProcessGroup> gather, reduce, replicate;
  };
  struct Unit {
    nn::Module* module = nullptr;
    std::string name;  // its path; "root"; "chunk 1" of a pipeline's stage
    const Sharing* sharing = nullptr;
    bool root = false;
    std::optional<FlatParameter> flat;
    Tensor shard, gradient_shard;   // what this rank keeps; parts of the whole where that stays
    Tensor parameters, gradients;   // whole, padded; empty while they are not here
    Tensor staged;                 // offloaded: the shard on the device, until it is gathered
    Transfer host_to_device;                // its way there
    Work gather;                    // brings the parameters
    bool gathering = false;
    bool used = false;              // has computed since it was gathered: does not count as held ahead
    bool reduced = false;           // gradient_shard holds the mean of an earlier micro-batch of this step
    size_t chunk = 0;  // the one of the stage that it is in
    size_t forward = 0, backward = 0;  // its places in the two orders
    size_t backward_last = 0;          // the place of the last one within it
  };
  struct Reduction {  // of one unit's gradients
    Unit* unit;
    Tensor part;      // this rank's shard of the sum, in the reduce type
    Work work;
    Tensor sum = {};  // offloaded: gradient_shard on the device, where this adds to it
    Transfer host_to_device = {};
  };

  // One rank that has all of a unit, on the device: nothing is gathered or reduced.
  bool Alone(const Unit& unit) const { return unit.sharing->shards() == 1 && unit.sharing->replicas() == 1 && !options_.offload; }
  bool KeepsParameters(const Unit& unit) const { return options_.stage < ShardedOptions::kParameters || Alone(unit); }
  bool KeepsGradients(const Unit& unit) const { return options_.stage < ShardedOptions::kGradients || Alone(unit); }
  const Sharing& SharingOf(nn::Replicas replicas) const {
    return experts_ && replicas == nn::Replicas::kExperts ? *experts_ : all_;
  }

  void Wrap(std::unique_ptr<nn::Module> model);
  static Unit* UnitOf(nn::Module& module);
  void CollectForward(nn::Module& module, size_t chunk);
  void CollectBackward(nn::Module& module);
  void Allocate(Unit& unit);
  void Draw(Unit& unit);

  // Around a unit's passes.
  void BeforeForward(Unit& unit);
  void BeforeForwardAgain(Unit& unit);           // recomputation: its parameters stay until it has gone back
  void AfterForward(Unit& unit, bool training);
  void BeforeBackwardInput(Unit& unit);
  void AfterBackwardInput(Unit& unit);
  void BeforeBackwardWeights(Unit& unit);
  void AfterBackwardWeights(Unit& unit);

  void Fetch(Unit& unit);                        // offloaded: the shard begins its way to the device
  void BringNext(const std::vector<Unit*>& order, size_t place);  // likewise, of the first unit from `place` on that is not here
  void Gather(Unit& unit);                       // begins it, where the parameters are not here
  void GatherAhead(const std::vector<Unit*>& order, size_t place);
  void Use(Unit& unit);                          // waits for it
  void Reshard(Unit& unit);
  void PrepareGradients(Unit& unit);
  void Reduce(Unit& unit);
  void AdvanceReductions();                      // each in flight gets one stage further
  void Store(Reduction reduction);
  void StoreOnHost(Reduction reduction);

  nn::Context& ctx_;
  const ShardedOptions options_;
  const Sharers sharers_;
  const Sharing all_;
  std::optional<Sharing> experts_;  // where ranks hold different ones
  std::unique_ptr<nn::Module> model_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Unit*> forward_, backward_;  // in the order in which they compute
  std::unique_ptr<ReplicaBuffers> buffers_;
  std::optional<Reduction> scattering_, replicating_;
  std::optional<TransferStream> in_, out_;  // offloaded: from the host's memory, and to it
  Transfer storing_;                        // likewise: of the last gradient shard
  bool sync_ = true;  // this micro-batch's gradients are reduced
};

}  // namespace twofold
