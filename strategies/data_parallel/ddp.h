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
// Parameters with different replicas have buckets of their own: experts, for example, are held by fewer ranks than the
// other parameters. N is then the number of ranks that hold the parameters of a bucket.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/data_parallel/mean_reducer.h"
#include "strategies/data_parallel/reduction_pipeline.h"
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
  DType gradient = DType::kF32;  // type in which gradients accumulate; the reducer chooses the type to send them in
  // With several micro-batches a step: true reduces after each one, false once per step (Li et al., section 3.2.4,
  // no_sync). Either way their sum has the type `gradient`.
  bool reduce_every_micro_batch = false;
};

// Assigns parameters to buckets. `sizes`: bytes of each parameter's gradient, in the model's order; the result holds
// indices into it. Buckets are filled from the last parameter to the first, since backward finishes them in about that
// order. A bucket holds only parameters with equal `replicas`; each kind of replicas has a first bucket.
std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, std::span<const nn::GroupTag> replicas,
                                               Bytes first_bucket, Bytes bucket);

// One rank's replica. Used from the rank's thread; `ctx` and `replicas` must outlive it.
class DistributedDataParallel final : public ParameterLayout {
 public:
  // Allocates parameters and buffers (Category::kParameters) and gradient buckets (Category::kGradients; the gradients
  // of a bucket are contiguous, without padding). Draws the initial values from ctx.seed and broadcasts those of rank
  // 0. Collective over `replicas`. `make_reducer`: if empty, gradients are averaged in their own type. Throws
  // OutOfMemory and what the broadcast throws.
  DistributedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas, const DdpOptions& options,
                          MakeReducer make_reducer = {});
  ~DistributedDataParallel() override;
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  void Attached(const optim::Optimizer& optimizer) override;
  void BeginStep(double loss_scale = 1) override;
  void BeginMicroBatch(bool last) override;
  void FinishGradients() override { CompleteReductions(); }
  void SkipUpdate() override { pipeline_.Skip(); }
  void PublishUpdate() override {}                    // nothing to do: every rank has updated whole parameters
  std::vector<optim::Slice> Slices() const override;  // every parameter, whole
  ProcessGroup* shard_group(nn::GroupTag) override { return nullptr; }
  std::vector<FlatGradient> Gradients() const override;  // the buckets, in the order of their reduction
  std::vector<NamedState> ReducerStates() const override { return pipeline_.States(); }
  void AverageBuffers() override { buffers_.Average(); }

  int64_t reductions() const { return reductions_; }  // reductions of buckets started so far

 private:
  class Home;
  struct Bucket {
    Tensor gradients;                // flat; the parameters' gradients are views into it
    Home* home;                      // the pipeline's
    std::vector<size_t> parameters;  // indices into parameters_, in the order of their offsets
    size_t pending = 0;              // parameters whose gradient is not complete yet in this backward pass
  };

  void AllocateParameters();
  void AllocateGradients();
  void AddBucket(std::vector<size_t> parameters);
  void BroadcastParameters();
  void OnReady(Bucket& bucket);
  void ReduceWhatIsReady();  // in bucket order, so that all ranks issue the same sequence of collectives
  void CompleteReductions();
  void PutMeansAside();
  void CheckAllReduced() const;

  nn::Context& ctx_;
  const ReplicaGroups replicas_;
  const DdpOptions options_;
  std::vector<nn::Parameter*> parameters_;
  ReductionPipeline pipeline_;
  std::vector<Bucket> buckets_;
  ReplicaBuffers buffers_;
  size_t next_ = 0;            // the first bucket not started since the last CompleteReductions
  bool communicates_ = false;  // some bucket is reduced or summed
  bool begun_ = false;         // a micro-batch of this step has begun
  bool last_ = true;           // the current micro-batch is the step's last
  bool sync_ = true;           // its backward pass reduces gradients
  int64_t reductions_ = 0;
};

}  // namespace twofold
