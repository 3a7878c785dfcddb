#include "strategies/data_parallel/ddp.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {

std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, Bytes first_bucket,
                                               Bytes bucket) {
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

DistributedDataParallel::DistributedDataParallel(nn::Context& ctx, nn::Module& module, ProcessGroup& group,
                                                 const DdpOptions& options,
                                                 std::unique_ptr<GradientCodec> codec)
    : ctx_(ctx),
      group_(group),
      options_(options),
      codec_(std::move(codec)),
      parameters_(module.Parameters()) {
  AllocateParameters();
  AllocateBuffers(module.Buffers());
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

// One flat tensor, of one type, so that they travel in one message. Their initial values are the same everywhere.
void DistributedDataParallel::AllocateBuffers(const std::vector<nn::Parameter*>& buffers) {
  if (buffers.empty()) return;
  int64_t elements = 0;
  for (const nn::Parameter* b : buffers) {
    TWOFOLD_CHECK(b->dtype() == buffers[0]->dtype(), b->name() + " has another type than the buffers before it");
    elements += b->numel();
  }
  buffers_ = ctx_.device.NewTensor(Shape{elements}, buffers[0]->dtype(), Category::kParameters);
  int64_t first = 0;
  for (nn::Parameter* b : buffers) {
    b->set_data(buffers_.Slice(first, b->shape()));
    b->Initialize(ctx_.device, ctx_.stream, ctx_.seed, b->data());
    first += b->numel();
  }
}

void DistributedDataParallel::AverageBuffers() {
  if (group_.size() == 1 || buffers_.empty()) return;
  group_.AllReduce(buffers_, ReduceOp::kAvg).WaitOn(ctx_.device.compute());
}

// One flat tensor a bucket; each parameter's gradient is a view into it, so that what backward writes is what
// is sent.
void DistributedDataParallel::AllocateGradients() {
  std::vector<Bytes> sizes;
  for (const nn::Parameter* p : parameters_)
    sizes.push_back(Bytes(p->numel() * ElementSize(options_.gradient)));
  std::vector<std::vector<size_t>> assigned = AssignBuckets(sizes, options_.first_bucket, options_.bucket);
  buckets_.resize(assigned.size());  // once: the hooks below point into it
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.parameters = std::move(assigned[b]);
    bucket.pending = bucket.parameters.size();
    int64_t elements = 0;
    for (size_t i : bucket.parameters) elements += parameters_[i]->numel();
    bucket.gradients = ctx_.device.NewTensor(Shape{elements}, options_.gradient, Category::kGradients);
    int64_t first = 0;
    for (size_t i : bucket.parameters) {
      nn::Parameter& p = *parameters_[i];
      p.set_gradient(bucket.gradients.Slice(first, p.shape()));
      first += p.numel();
      if (group_.size() > 1) p.SetReadyHook([this, &bucket](nn::Parameter&) { OnReady(bucket); });
    }
  }
}

void DistributedDataParallel::BroadcastParameters() {
  if (group_.size() == 1) return;
  Work last;
  for (nn::Parameter* p : parameters_) {
    Tensor data = p->data();
    last = group_.Broadcast(data, 0);
  }
  last.WaitOn(ctx_.device.compute());  // a group's work runs in order: the last one stands for all
}

// A parameter's gradient is complete for this backward pass.
void DistributedDataParallel::OnReady(Bucket& bucket) {
  if (no_sync_ > 0) return;
  TWOFOLD_CHECK_GT(bucket.pending, size_t{0});  // else: a second backward pass without Finish, outside NoSync
  if (--bucket.pending == 0 && options_.overlap) ReduceWhatIsReady();
}

void DistributedDataParallel::ReduceWhatIsReady() {
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
    Bucket& bucket = buckets_[next_];
    bucket.work = codec_->Reduce(ctx_, next_, bucket.gradients, group_);
    ++reductions_;
  }
}

void DistributedDataParallel::Finish() {
  if (group_.size() == 1) return;
  ReduceWhatIsReady();
  CheckAllReduced();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    std::exchange(bucket.work, Work()).WaitOn(ctx_.device.compute());
    codec_->Decode(ctx_, b, bucket.gradients);
    bucket.pending = bucket.parameters.size();
  }
  next_ = 0;
}

void DistributedDataParallel::CheckAllReduced() const {
  if (next_ == buckets_.size()) return;
  for (const size_t i : buckets_[next_].parameters) {
    TWOFOLD_CHECK(parameters_[i]->has_gradient(),
                  parameters_[i]->name() + " got no gradient in this backward pass");
  }
  TWOFOLD_CHECK_EQ(buckets_[next_].pending,
                   size_t{0});  // else: every backward pass of the step was under NoSync
}

void DistributedDataParallel::ZeroGradient() {
  for (nn::Parameter* p : parameters_) p->ZeroGradient();
}

std::vector<optim::Slice> DistributedDataParallel::Slices() const {
  std::vector<optim::Slice> slices;
  for (const nn::Parameter* p : parameters_)
    slices.push_back({p->name(), p->data(), p->gradient(), p->decay()});
  return slices;
}

std::vector<Tensor> DistributedDataParallel::Gradients() const {
  std::vector<Tensor> gradients;
  for (const Bucket& bucket : buckets_) gradients.push_back(bucket.gradients);
  return gradients;
}

}  // namespace twofold
