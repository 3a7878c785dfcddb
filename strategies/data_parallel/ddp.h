// Distributed data parallelism: every rank holds the whole model and works on its own part of the batch;
// gradients are averaged in buckets while backward is still going on.
//   Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 13(12):
//   section 3.2.2 (bucketing), 3.2.3 (overlap), 3.2.4 (accumulation).
//
// With N ranks and a model of P parameters, Psi = P * size(type they travel in):
//   memory         parameters, gradients and optimizer state in full on every rank (Rajbhandari et al. 2020, ZeRO,
//                  figure 1, baseline); gradients live in the buckets, so a reduction needs no copy. Reduced after every
//                  micro-batch, in a type that rounds them on their way: a second set of gradients from the second
//                  micro-batch to the end of the step, where the means add up
//   communication  each rank sends and receives 2 Psi (N - 1) / N bytes a step (a ring; Patarasuk and Yuan 2009,
//                  section 3), in about Psi / bucket all-reduces, once per optimizer step however many
//                  micro-batches (or after each, see DdpOptions); and every parameter is broadcast once at the start
//   compute        that of one process on 1/N of the batch; nothing is computed twice
// Use it when the model with its optimizer state fits on one device: it has the least communication for each
// byte of gradient and hides nearly all of it behind backward. Beyond that, shard. Limits: every parameter
// must receive a gradient in every backward pass (PyTorch's find_unused_parameters has no counterpart here).
//
// Where ranks hold different experts, theirs are in buckets of their own, which are averaged over the ranks that hold the same
// ones: Psi / N of them then counts those ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/gradient_codec.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/data_parallel/replica_buffers.h"

namespace twofold {

struct DdpOptions {
  // Bytes after which a bucket is closed: it takes parameters until it holds at least this much, so it is
  // larger by at most one parameter. More: fewer, better-filled messages. Less: communication starts sooner.
  Bytes bucket = MiB(25);
  // The same for the first bucket, if less: it is the only one whose wait nothing else can hide (as PyTorch,
  // 1 MiB).
  Bytes first_bucket = MiB(1);
  bool overlap = true;         // false: all buckets are reduced after backward, for comparison
  DType gradient = DType::kF32;  // of gradients as they add up; how they travel is the codec's affair
  // With several micro-batches a step: reduce after each, or once (Li et al., section 3.2.4, no_sync). Either way their sum is
  // kept in `gradient`.
  bool reduce_every_micro_batch = false;
};

// Which parameters share a bucket: indices into `sizes` (bytes of each parameter's gradient, in the model's
// order). Filled from the last parameter to the first, since that is about the order in which backward
// finishes them.
std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, Bytes first_bucket,
                                               Bytes bucket);

// One rank's replica. Used from the rank's thread; `ctx`, `module` and `replicas` must outlive it.
class DistributedDataParallel final : public ParameterLayout {
 public:
  // Allocates every parameter and buffer (Category::kParameters) and gradient bucket (Category::kGradients; parameters
  // one after the other without padding), draws the initial values from ctx.seed, and gives all ranks those
  // of rank 0. Collective over `replicas`. Throws OutOfMemory and what the broadcast throws.
  DistributedDataParallel(nn::Context& ctx, nn::Module& module, const ReplicaGroups& replicas,
                          const DdpOptions& options,
                          std::unique_ptr<GradientCodec> codec = std::make_unique<IdentityCodec>());
  // The same, of a module that it owns.
  DistributedDataParallel(nn::Context& ctx, std::unique_ptr<nn::Module> module, const ReplicaGroups& replicas,
                          const DdpOptions& options,
                          std::unique_ptr<GradientCodec> codec = std::make_unique<IdentityCodec>());
  ~DistributedDataParallel() override;
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  nn::Module& model() override { return module_; }
  void BeginStep() override;
  void BeginMicroBatch(bool last) override;
  void FinishGradients() override;
  void PublishUpdate() override {}  // every rank has updated all that it holds
  std::vector<optim::Slice> Slices() const override;  // every parameter, whole
  ProcessGroup* shard_group(nn::Replicas) override { return nullptr; }
  std::vector<Tensor> Gradients() const override;     // the buckets, in the order of their reduction
  void AverageBuffers() override { buffers_.Average(); }

  int64_t reductions() const { return reductions_; }  // all-reduces of gradients started so far

 private:
  struct Bucket {
    Tensor gradients;                // flat; the parameters' gradients are views into it
    Tensor sum;                      // of the means of the step's micro-batches so far, where they are kept apart
    std::vector<size_t> parameters;  // indices into parameters_, in the order of their places
    ProcessGroup* group;             // they are averaged over
    size_t pending = 0;              // parameters whose gradient is still to come in this step
    Work work;
  };

  void AllocateParameters();
  void AllocateGradients();
  std::vector<Bucket> Assign() const;
  void BroadcastParameters();
  void OnReady(Bucket& bucket);
  void ReduceWhatIsReady();  // in the order of the buckets, so that all ranks issue the same sequence
  void CompleteReductions();
  bool KeepsMeansApart(const Bucket& bucket) const;
  void PutMeansAside();
  void AddMeansBefore();
  void CheckAllReduced() const;

  std::unique_ptr<nn::Module> owned_;  // may be null
  nn::Context& ctx_;
  nn::Module& module_;
  const ReplicaGroups replicas_;
  const DdpOptions options_;
  std::unique_ptr<GradientCodec> codec_;
  std::vector<nn::Parameter*> parameters_;
  std::vector<Bucket> buckets_;
  ReplicaBuffers buffers_;
  size_t next_ = 0;   // the first bucket not reduced since the last CompleteReductions
  bool begun_ = false;  // a micro-batch of this step has
  bool sync_ = true;    // its backward pass reduces
  int64_t reductions_ = 0;
};

}  // namespace twofold
