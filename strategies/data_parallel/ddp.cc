#include "strategies/data_parallel/ddp.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "strategies/data_parallel/initial_values.h"

namespace twofold {

std::vector<std::vector<size_t>> AssignBuckets(std::span<const Bytes> sizes, std::span<const nn::GroupTag> replicas,
                                               Bytes first_bucket, Bytes bucket) {
  struct Open {
    std::vector<size_t> parameters;
    Bytes held, limit;
  };
  std::map<nn::GroupTag, Open> open;
  std::vector<std::vector<size_t>> buckets;
  for (size_t i = sizes.size(); i-- > 0;) {
    Open& o = open.try_emplace(replicas[i], Open{.limit = std::min(first_bucket, bucket)}).first->second;
    o.parameters.push_back(i);
    o.held += sizes[i];
    if (o.held < o.limit) continue;
    buckets.push_back(std::exchange(o.parameters, {}));
    o.held = Bytes(0), o.limit = bucket;
  }
  for (auto& [kind, o] : open) {
    if (!o.parameters.empty()) buckets.push_back(std::move(o.parameters));
  }
  // Backward completes a bucket when it reaches the bucket's first parameter in the model's order.
  std::sort(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) { return a.back() > b.back(); });
  return buckets;
}

// A bucket's gradients are where its mean is kept. If reducing rounds, the sum of the means of the step's earlier
// micro-batches is kept apart, so that it is not rounded once for each of them.
class DistributedDataParallel::Home final : public GradientHome {
 public:
  Home(nn::Context& ctx, Tensor gradients) : ctx_(ctx), gradients_(std::move(gradients)) {}

  void BeginStep() override {}
  Tensor Begin() override { return gradients_; }
  Tensor Add(Tensor mean, bool last) override {
    if (mean.address() != gradients_.address()) ctx_.Launch(ops::Cast{.in = std::move(mean), .out = gradients_});
    if (last && !before_.empty()) ctx_.Launch(ops::AddTo{.in = std::exchange(before_, Tensor()), .out = gradients_});
    return gradients_;
  }
  void Store(Tensor) override {}

  void PutAside() {
    if (!before_.empty()) return ctx_.Launch(ops::AddTo{.in = gradients_, .out = before_});
    before_ = ctx_.device.NewTensor(gradients_.shape(), gradients_.dtype(), Category::kGradients, "earlier means");
    ctx_.Launch(ops::Cast{.in = gradients_, .out = before_});
  }

 private:
  nn::Context& ctx_;
  const Tensor gradients_;
  Tensor before_;
};

DistributedDataParallel::DistributedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                                 const DdpOptions& options, MakeReducer make_reducer)
    : ParameterLayout(std::move(chunks)),
      ctx_(ctx),
      replicas_(replicas),
      options_(options),
      parameters_(Parameters()),
      pipeline_(ctx, make_reducer ? std::move(make_reducer) : MeanReducers(options.gradient), replicas),
      buffers_(ctx, Buffers(), replicas.Of(kBatchTag)) {
  AllocateParameters();
  AllocateGradients();
  if (ctx.draws) BroadcastParameters();
}

DistributedDataParallel::~DistributedDataParallel() {
  for (nn::Parameter* p : parameters_) p->SetReadyHook(nullptr);
}

void DistributedDataParallel::AllocateParameters() {
  for (nn::Parameter* p : parameters_) {
    const OwnerScope of(ctx_.owners(), {.module = p->name()});
    p->set_data(ctx_.device.NewTensor(p->shape(), p->dtype(), Category::kParameters, "parameter"));
    if (ctx_.draws) p->Initialize(ctx_.device, ctx_.stream, ctx_.seed, p->data());
  }
}

// Allocates one flat tensor per bucket. Each parameter's gradient is a view into it, so backward writes directly to the
// buffer that is sent.
void DistributedDataParallel::AllocateGradients() {
  std::vector<Bytes> sizes;
  std::vector<nn::GroupTag> replicas;
  for (const nn::Parameter* p : parameters_) {
    sizes.push_back(Bytes(p->numel() * ElementSize(options_.gradient)));
    replicas.push_back(p->replicas());
  }
  for (std::vector<size_t>& members : AssignBuckets(sizes, replicas, options_.first_bucket, options_.bucket))
    AddBucket(std::move(members));
  if (!communicates_) return;
  for (Bucket& bucket : buckets_) {
    for (const size_t i : bucket.parameters) parameters_[i]->SetReadyHook([&](nn::Parameter&) { OnReady(bucket); });
  }
}

void DistributedDataParallel::AddBucket(std::vector<size_t> parameters) {
  ProcessGroup& group = replicas_.Of(parameters_[parameters[0]]->replicas());
  twofold::Bucket bucket{.dtype = options_.gradient, .groups = {.replicate = group.size() > 1 ? &group : nullptr}};
  for (const size_t i : parameters) {
    bucket.whole.push_back({parameters_[i], 0, bucket.numel, parameters_[i]->numel()});
    bucket.numel += parameters_[i]->numel();
  }
  bucket.kept = bucket.whole;
  const std::string &last = bucket.whole.front().parameter->name(), &first = bucket.whole.back().parameter->name();
  const OwnerScope of(ctx_.owners(), {.module = first == last ? first : StrCat(first, " to ", last)});
  const Tensor gradients =
      ctx_.device.NewTensor(Shape{bucket.numel}, options_.gradient, Category::kGradients, "gradient bucket");
  for (size_t k = 0; k < parameters.size(); ++k) {
    nn::Parameter& p = *parameters_[parameters[k]];
    p.set_gradient(gradients.Slice(bucket.whole[k].offset, p.shape()));
  }
  auto home = std::make_unique<Home>(ctx_, gradients);
  buckets_.push_back({gradients, home.get(), std::move(parameters)});
  buckets_.back().pending = buckets_.back().parameters.size();
  pipeline_.Add(std::move(bucket), std::move(home));
  communicates_ |= pipeline_.Moves(buckets_.size() - 1);
}

void DistributedDataParallel::BroadcastParameters() {
  std::map<nn::GroupTag, Work> last;  // a group's work runs in order, so waiting for the last one is enough
  for (nn::Parameter* p : parameters_) {
    ProcessGroup& group = replicas_.Of(p->replicas());
    if (group.size() == 1) continue;
    Tensor data = p->data();
    last[p->replicas()] = group.Broadcast(data, 0);
  }
  for (auto& [replicas, work] : last) work.WaitOn(ctx_.device.compute());
  for (const nn::Parameter* p : parameters_) ShareInitialValues(ctx_, replicas_, *p, 0, p->data());
}

// Called when the gradient of a parameter in `bucket` is complete for this backward pass.
void DistributedDataParallel::OnReady(Bucket& bucket) {
  if (!sync_) return;
  TWOFOLD_CHECK_GT(bucket.pending, size_t{0});  // fails if two backward passes follow one BeginMicroBatch
  if (--bucket.pending == 0 && options_.overlap) ReduceWhatIsReady();
}

void DistributedDataParallel::ReduceWhatIsReady() {
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
    pipeline_.AdvanceDependent();
    pipeline_.Start(next_, buckets_[next_].gradients, last_);
    if (pipeline_.Reduces(next_)) ++reductions_;
  }
}

void DistributedDataParallel::Attached(const optim::Optimizer& optimizer) {
  pipeline_.Attached([&](const nn::Parameter& parameter, std::string_view name) {
    const auto i =
        static_cast<size_t>(std::find(parameters_.begin(), parameters_.end(), &parameter) - parameters_.begin());
    for (const optim::State& state : optimizer.StateOf(i))  // a slice is a parameter
      if (state.name == name) return state.tensor;
    return Tensor();
  });
}

void DistributedDataParallel::BeginStep(double loss_scale) {
  pipeline_.BeginStep(loss_scale);
  begun_ = false;
  for (nn::Parameter* p : parameters_) p->ZeroGradient();
}

// With a reduction after every micro-batch, backward adds the gradients of this micro-batch to the mean of the earlier
// ones, which is the same on every rank, and the bucket is averaged again: sums of means are means of sums. If the
// reducer rounds, this would round the sum once per micro-batch. In that case the sum is kept apart and only this
// micro-batch's gradients are sent.
void DistributedDataParallel::BeginMicroBatch(bool last) {
  if (begun_ && sync_ && options_.reduce_every_micro_batch) {
    CompleteReductions();
    PutMeansAside();
  }
  begun_ = true;
  last_ = last;
  sync_ = last || options_.reduce_every_micro_batch;
}

void DistributedDataParallel::PutMeansAside() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!pipeline_.Rounds(b)) continue;
    buckets_[b].home->PutAside();
    for (const size_t i : buckets_[b].parameters) parameters_[i]->ZeroGradient();
  }
}

void DistributedDataParallel::CompleteReductions() {
  if (!communicates_) return;
  ReduceWhatIsReady();
  CheckAllReduced();
  pipeline_.Finish();
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameters.size();
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
  for (const nn::Parameter* p : parameters_) slices.push_back(optim::WholeSlice(*p));
  return slices;
}

std::vector<FlatGradient> DistributedDataParallel::Gradients() const {
  std::vector<FlatGradient> gradients;
  for (const Bucket& bucket : buckets_) {
    FlatGradient& flat = gradients.emplace_back(FlatGradient{bucket.gradients, {}});
    int64_t offset = 0;
    for (const size_t i : bucket.parameters) {
      const nn::Parameter* p = parameters_[i];
      flat.parts.push_back({.parameter = p, .offset = offset, .count = p->numel()});
      offset += p->numel();
    }
  }
  return gradients;
}

}  // namespace twofold
