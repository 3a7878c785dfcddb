#include "strategies/data_parallel/ddp.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "strategies/data_parallel/initial_values.h"

namespace twofold {

std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, Bytes first_bucket, Bytes bucket) {
  std::vector<std::vector<size_t>> buckets;
  Bytes limit = std::min(first_bucket, bucket), held;
  bool open = false;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (!open) {
      buckets.emplace_back();
      held = Bytes(0);
    }
    buckets.back().push_back(i);
    held += sizes[i];
    open = held < limit;
    if (!open) limit = bucket;
  }
  return buckets;
}

DistributedDataParallel::DistributedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                                 const DdpOptions& options, std::unique_ptr<GradientCodec> codec)
    : ParameterLayout(std::move(chunks)),
      ctx_(ctx),
      replicas_(replicas),
      options_(options),
      codec_(std::move(codec)),
      parameters_(Parameters()),
      buffers_(ctx, Buffers(), replicas.all) {
  AllocateParameters();
  AllocateGradients();
  BroadcastParameters();
}

DistributedDataParallel::~DistributedDataParallel() {
  for (nn::Parameter* p : parameters_) p->SetReadyHook(nullptr);
}

void DistributedDataParallel::AllocateParameters() {
  for (nn::Parameter* p : parameters_) {
    p->set_data(ctx_.device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->Initialize(ctx_.device, ctx_.stream, ctx_.seed, p->data());
  }
}

// All parameters of a bucket are averaged over the same ranks. Buckets are sorted in the order in which backward
// completes them, which is when it reaches the bucket's first parameter in the model's order.
std::vector<DistributedDataParallel::Bucket> DistributedDataParallel::Assign() const {
  std::vector<Bucket> buckets;
  std::vector<ProcessGroup*> groups = {&replicas_.all};
  if (replicas_.differ()) groups.push_back(&replicas_.experts);
  for (ProcessGroup* group : groups) {
    std::vector<size_t> members;
    std::vector<Bytes> sizes;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (&replicas_.Of(parameters_[i]->replicas()) != group) continue;
      members.push_back(i);
      sizes.push_back(Bytes(parameters_[i]->numel() * ElementSize(options_.gradient)));
    }
    for (std::vector<size_t>& assigned : AssignBuckets(sizes, options_.first_bucket, options_.bucket)) {
      for (size_t& i : assigned) i = members[i];
      const size_t pending = assigned.size();
      buckets.push_back({.parameters = std::move(assigned), .group = group, .pending = pending});
    }
  }
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.parameters.back() > b.parameters.back(); });
  return buckets;
}

// Allocates one flat tensor per bucket. Each parameter's gradient is a view into it, so backward writes directly to the
// buffer that is sent.
void DistributedDataParallel::AllocateGradients() {
  buckets_ = Assign();  // must not be reassigned: the hooks below point into it
  for (Bucket& bucket : buckets_) {
    int64_t elements = 0;
    for (size_t i : bucket.parameters) elements += parameters_[i]->numel();
    bucket.gradients = ctx_.device.NewTensor(Shape{elements}, options_.gradient, Category::kGradients);
    int64_t first = 0;
    for (size_t i : bucket.parameters) {
      nn::Parameter& p = *parameters_[i];
      p.set_gradient(bucket.gradients.Slice(first, p.shape()));
      first += p.numel();
      if (replicas_.all.size() > 1) p.SetReadyHook([this, &bucket](nn::Parameter&) { OnReady(bucket); });
    }
  }
}

void DistributedDataParallel::BroadcastParameters() {
  Work last, last_of_experts;
  for (nn::Parameter* p : parameters_) {
    ProcessGroup& group = replicas_.Of(p->replicas());
    if (group.size() == 1) continue;
    Tensor data = p->data();
    (&group == &replicas_.all ? last : last_of_experts) = group.Broadcast(data, 0);
  }
  last.WaitOn(ctx_.device.compute());  // a group's work runs in order, so waiting for the last one is enough
  last_of_experts.WaitOn(ctx_.device.compute());
  for (const nn::Parameter* p : parameters_) ShareInitialValues(ctx_, replicas_.sharers, *p, 0, p->data());
}

// Called when the gradient of a parameter in `bucket` is complete for this backward pass.
void DistributedDataParallel::OnReady(Bucket& bucket) {
  if (!sync_) return;
  TWOFOLD_CHECK_GT(bucket.pending, size_t{0});  // fails if two backward passes follow one BeginMicroBatch
  if (--bucket.pending == 0 && options_.overlap) ReduceWhatIsReady();
}

void DistributedDataParallel::ReduceWhatIsReady() {
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
    Bucket& bucket = buckets_[next_];
    if (bucket.group->size() == 1) continue;
    bucket.work = codec_->Reduce(ctx_, next_, bucket.gradients, *bucket.group);
    ++reductions_;
  }
}

void DistributedDataParallel::BeginStep() {
  begun_ = false;
  for (nn::Parameter* p : parameters_) p->ZeroGradient();
}

// With a reduction after every micro-batch, backward adds the gradients of this micro-batch to the mean of the earlier
// ones, which is the same on every rank, and the bucket is averaged again: sums of means are means of sums. If the
// codec rounds, this would round the sum once per micro-batch. In that case the sum is kept apart and only this
// micro-batch's gradients are sent.
void DistributedDataParallel::BeginMicroBatch(bool last) {
  if (begun_ && sync_ && options_.reduce_every_micro_batch) {
    CompleteReductions();
    PutMeansAside();
  }
  begun_ = true;
  sync_ = last || options_.reduce_every_micro_batch;
}

void DistributedDataParallel::FinishGradients() {
  CompleteReductions();
  AddMeansBefore();
}

bool DistributedDataParallel::KeepsMeansApart(const Bucket& bucket) const {
  return bucket.group->size() > 1 && codec_->Rounds(options_.gradient);
}

void DistributedDataParallel::PutMeansAside() {
  for (Bucket& bucket : buckets_) {
    if (!KeepsMeansApart(bucket)) continue;
    if (bucket.sum.empty()) {
      bucket.sum = ctx_.device.NewTensor(bucket.gradients.shape(), options_.gradient, Category::kGradients);
      ctx_.Launch(ops::Cast{.in = bucket.gradients, .out = bucket.sum});
    } else {
      ctx_.Launch(ops::AddTo{.in = bucket.gradients, .out = bucket.sum});
    }
    for (const size_t i : bucket.parameters) parameters_[i]->ZeroGradient();
  }
}

void DistributedDataParallel::AddMeansBefore() {
  for (Bucket& bucket : buckets_) {
    if (!bucket.sum.empty())
      ctx_.Launch(ops::AddTo{.in = std::exchange(bucket.sum, Tensor()), .out = bucket.gradients});
  }
}

void DistributedDataParallel::CompleteReductions() {
  if (replicas_.all.size() == 1) return;
  ReduceWhatIsReady();
  CheckAllReduced();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    if (bucket.group->size() > 1) {
      std::exchange(bucket.work, Work()).WaitOn(ctx_.device.compute());
      codec_->Decode(ctx_, b, bucket.gradients);
    }
    bucket.pending = bucket.parameters.size();
  }
  next_ = 0;
}

void DistributedDataParallel::CheckAllReduced() const {
  if (next_ == buckets_.size()) return;
  for (const size_t i : buckets_[next_].parameters) {
    TWOFOLD_CHECK(parameters_[i]->has_gradient(), parameters_[i]->name() + " got no gradient in this backward pass");
  }
  TWOFOLD_CHECK_EQ(buckets_[next_].pending, size_t{0});  // fails if no micro-batch of the step was the last
}

std::vector<optim::Slice> DistributedDataParallel::Slices() const {
  std::vector<optim::Slice> slices;
  for (const nn::Parameter* p : parameters_) slices.push_back({p->name(), p->data(), p->gradient(), p->decay()});
  return slices;
}

std::vector<Tensor> DistributedDataParallel::Gradients() const {
  std::vector<Tensor> gradients;
  for (const Bucket& bucket : buckets_) gradients.push_back(bucket.gradients);
  return gradients;
}

}  // namespace twofold
