// Distributed data parallelism (DDP): every rank holds the whole model and works on its own part of the batch.
// Gradients are averaged in buckets while backward is still running.
//   Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 13(12):
//   section 3.2.2 (bucketing), 3.2.3 (overlap), 3.2.4 (accumulation).
//
// With N ranks and a model of P parameters, Psi = P * size of the type in which gradients are sent:
//   memory         parameters, gradients and optimizer state in full on every rank (Rajbhandari et al. 2020, ZeRO,
//                  figure 1, baseline). Gradients are stored in the buckets, so a reduction needs no copy. If gradients
//                  are reduced after every micro-batch and rounded when they are sent, a second set of gradients holds
//                  the sum of the means, from the second micro-batch to the end of the step
//   communication  to reduce all gradients, each rank sends and receives 2 Psi (N - 1) / N bytes (a ring; Patarasuk and
//                  Yuan 2009, section 3), in about Psi / bucket all-reduces. Gradients are reduced once per optimizer
//                  step, or with DdpOptions::reduce_every_micro_batch after each micro-batch. Every parameter is
//                  broadcast once at the start
//   compute        that of one process on 1/N of the batch; nothing is computed twice
// Use it when the model and its optimizer state fit on one device: it has the least communication per byte of gradient
// and hides nearly all of it behind backward. If they do not fit, shard (sharded.h).
// Limits: every parameter must receive a gradient in every backward pass (there is no equivalent of PyTorch's
// find_unused_parameters).
//
// Parameters with other replicas than all ranks (nn::Parameter::replicas), such as experts, have buckets of their own,
// and N is the number of these replicas.
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
  // A bucket takes parameters until it holds at least this many bytes, so it exceeds this size by less than one
  // parameter. Larger buckets mean fewer and larger messages; smaller ones start communication sooner.
  Bytes bucket = MiB(25);
  // The limit of the first bucket, if smaller than `bucket`. No communication can start before the first bucket is
  // full, so it is small (PyTorch also uses 1 MiB).
  Bytes first_bucket = MiB(1);
  bool overlap = true;           // false: all buckets are reduced after backward, for comparison
  DType gradient = DType::kF32;  // type in which gradients accumulate; the codec chooses the type to send them in
  // With several micro-batches a step: true reduces after each one, false once per step (Li et al., section 3.2.4,
  // no_sync). Either way their sum has the type `gradient`.
  bool reduce_every_micro_batch = false;
};

// Assigns parameters to buckets. `sizes`: bytes of each parameter's gradient, in the model's order; the result holds
// indices into it. Buckets are filled from the last parameter to the first, since backward finishes them in about that
// order.
std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, Bytes first_bucket, Bytes bucket);

// One rank's replica. Used from the rank's thread; `ctx`, `module` and `replicas` must outlive it.
class DistributedDataParallel final : public ParameterLayout {
 public:
  // Allocates parameters and buffers (Category::kParameters) and gradient buckets (Category::kGradients; the gradients
  // of a bucket are contiguous, without padding). Draws the initial values from ctx.seed and broadcasts those of rank
  // 0. Collective over `replicas`. Throws OutOfMemory and what the broadcast throws.
  DistributedDataParallel(nn::Context& ctx, nn::Module& module, const ReplicaGroups& replicas,
                          const DdpOptions& options,
                          std::unique_ptr<GradientCodec> codec = std::make_unique<IdentityCodec>());
  // The same, but takes ownership of the module.
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
  void PublishUpdate() override {}                    // nothing to do: every rank has updated whole parameters
  std::vector<optim::Slice> Slices() const override;  // every parameter, whole
  ProcessGroup* shard_group(nn::GroupTag) override { return nullptr; }
  std::vector<FlatGradient> Gradients() const override;  // the buckets, in the order of their reduction
  void AverageBuffers() override { buffers_.Average(); }

  int64_t reductions() const { return reductions_; }  // all-reduces of gradients started so far

 private:
  struct Bucket {
    Tensor gradients;                // flat; the parameters' gradients are views into it
    Tensor sum;                      // sum of the means of the step's earlier micro-batches, if they are kept apart
    std::vector<size_t> parameters;  // indices into parameters_, in the order of their offsets
    ProcessGroup* group;             // the ranks over which they are averaged
    size_t pending = 0;              // parameters whose gradient is not complete yet in this backward pass
    Work work;
  };

  void AllocateParameters();
  void AllocateGradients();
  std::vector<Bucket> Assign() const;
  void BroadcastParameters();
  void OnReady(Bucket& bucket);
  void ReduceWhatIsReady();  // in bucket order, so that all ranks issue the same sequence of collectives
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
  size_t next_ = 0;     // the first bucket not reduced since the last CompleteReductions
  bool begun_ = false;  // a micro-batch of this step has begun
  bool sync_ = true;    // the current micro-batch's backward pass reduces gradients
  int64_t reductions_ = 0;
};

}  // namespace twofold
