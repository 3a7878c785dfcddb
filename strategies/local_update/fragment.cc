#include "strategies/local_update/fragment.h"

#include <utility>

#include "core/base/strings.h"
#include "strategies/data_parallel/reduction_pipeline.h"

namespace twofold {
namespace {

std::vector<optim::SlicePart> PartsOf(const std::vector<FragmentPiece>& pieces) {
  std::vector<optim::SlicePart> parts;
  int64_t at = 0;
  for (const FragmentPiece& piece : pieces) {
    for (optim::SlicePart part : piece.parts) {
      part.offset += at;
      parts.push_back(part);
    }
    at += piece.numel();
  }
  return parts;
}

}  // namespace

Fragment::Fragment(nn::Context& ctx, size_t index, std::vector<FragmentPiece> pieces, ProcessGroup& islands,
                   const ReplicaGroups& groups, const Options& options)
    : index_(index),
      pieces_(std::move(pieces)),
      options_(options),
      dtype_(pieces_.empty() ? DType::kF32 : pieces_[0].values.dtype()),
      elements_{.name = StrCat("fragment ", index), .parts = PartsOf(pieces_)} {
  for (const FragmentPiece& piece : pieces_) {
    TWOFOLD_CHECK(piece.values.dtype() == dtype_, "the values of a fragment have one type");
    numel_ += piece.numel();
  }
  if (numel_ == 0) return;
  if (options_.outer) {
    common_ = New(ctx, Category::kOptimizerState);
    Restart(ctx);
    if (options_.outer->momentum > 0) {
      momentum_ = New(ctx, Category::kOptimizerState);
      ctx.Launch(ops::Fill{.out = momentum_, .value = 0});
    }
  }
  if (islands.size() == 1) return;
  const Bucket bucket{.index = index,
                      .numel = numel_,
                      .dtype = dtype_,
                      .whole = elements_.parts,
                      .kept = elements_.parts,
                      .groups = {.replicate = &islands}};
  reducer_ = options_.make_reducer(ctx, bucket);
  if (!reducer_->elementwise()) copies_ = HolderSums::Averages(elements_.parts, groups);
}

void Fragment::Restart(nn::Context& ctx) {
  mean_ = Tensor();
  if (common_.empty()) return;
  int64_t at = 0;
  for (const FragmentPiece& piece : pieces_) {
    ctx.Launch(ops::Cast{.in = piece.values.Flat(), .out = common_.Slice(at, piece.numel())});
    at += piece.numel();
  }
}

void Fragment::Start(nn::Context& ctx) {
  if (numel_ == 0) return;
  Tensor sent = New(ctx, Category::kCommunication);
  int64_t at = 0;
  for (const FragmentPiece& piece : pieces_) {
    Tensor part = sent.Slice(at, piece.numel());
    ctx.Launch(ops::Affine{.in = piece.values.Flat(), .out = part, .scale = common_.empty() ? 1.0 : -1.0});
    if (!common_.empty()) ctx.Launch(ops::AddTo{.in = common_.Slice(at, piece.numel()), .out = part});
    at += piece.numel();
  }
  if (reducer_ == nullptr) {
    mean_ = std::move(sent);
    return;
  }
  reducer_->BeginStep(ctx, 1);
  work_ = reducer_->Start(ctx, sent, sent, /*last=*/true);
}

void Fragment::Advance(nn::Context& ctx) {
  if (!work_) return;
  work_->WaitOn(ctx.stream);
  work_ = reducer_->Next(ctx);
  if (work_) return;
  mean_ = reducer_->Mean(ctx);
  copies_.Finish(ctx, copies_.Start(ctx, mean_), mean_);
}

void Fragment::Settle(nn::Context& ctx) {
  while (work_) Advance(ctx);
}

void Fragment::Finish(nn::Context& ctx) {
  Settle(ctx);
  if (mean_.empty()) return;
  const Tensor mean = std::exchange(mean_, Tensor());
  if (!options_.outer) return Merge(ctx, mean, mean);
  ctx.Launch(ops::SgdStep{.param = common_,
                          .grad = mean,
                          .momentum = momentum_,
                          .lr = options_.outer->lr,
                          .momentum_factor = options_.outer->momentum,
                          .nesterov = options_.outer->nesterov});
  Merge(ctx, common_, mean);
}

// values = weight * common + (1 - weight) * values. `scratch` may be `common`.
void Fragment::Merge(nn::Context& ctx, const Tensor& common, const Tensor& scratch) {
  int64_t at = 0;
  for (const FragmentPiece& piece : pieces_) {
    Tensor merged = common.Slice(at, piece.numel());
    if (options_.weight != 1) {
      const Tensor own = ctx.device.NewTensor(Shape{piece.numel()}, dtype_, Category::kOther);
      ctx.Launch(ops::Affine{.in = piece.values.Flat(), .out = own, .scale = 1 - options_.weight});
      const Tensor part = scratch.Slice(at, piece.numel());
      ctx.Launch(ops::Affine{.in = merged, .out = part, .scale = options_.weight});
      ctx.Launch(ops::AddTo{.in = own, .out = part});
      merged = part;
    }
    ctx.Launch(ops::Cast{.in = merged, .out = piece.values.Flat()});
    if (!piece.parameters.empty()) ctx.Launch(ops::Cast{.in = merged, .out = piece.parameters.Flat()});
    at += piece.numel();
  }
}

std::vector<FragmentState> Fragment::States() const {
  TWOFOLD_CHECK(!work_, "a fragment whose states are saved is settled");
  std::vector<FragmentState> states;
  const auto own = [&](const std::string& name, const Tensor& tensor) {
    states.push_back({StrCat(name, "_", index_, "_", HashOf(elements_.parts)), elements_, tensor, /*own=*/true});
  };
  if (!common_.empty()) states.push_back({"parameter", elements_, common_});
  if (!momentum_.empty()) states.push_back({"momentum", elements_, momentum_});
  if (!mean_.empty()) own("pending", mean_);
  if (reducer_ == nullptr) return states;
  for (const ReducerState& state : reducer_->State()) own(StrCat(state.name, "_", state.stage), state.tensor);
  return states;
}

}  // namespace twofold
