#include "strategies/validation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace twofold {

bool Patience::RunsOut(double loss) {
  const bool better = first_ ? !std::isnan(loss) : loss < best_ - min_delta_;
  bad_validations_ = better ? 0 : bad_validations_ + 1;
  if (better) best_ = loss, first_ = false;
  return most_ > 0 && bad_validations_ >= most_;
}

Validation::Validation(nn::Context& ctx, DeviceMesh& mesh, const Dataset& data, nn::Loss& loss, Predict predict,
                       const ValidationOptions& options)
    : ctx_(ctx),
      mesh_(mesh),
      replicas_(mesh.shape().dp),
      replica_(mesh.Coordinate(Axis::kDp)),
      data_(data),
      loss_(loss),
      predict_(std::move(predict)),
      options_(options),
      patience_(options.patience, options.min_delta) {
  TWOFOLD_CHECK_GE(options.samples, 1);
  TWOFOLD_CHECK_LE(options.samples, data.size());
  totals_ = ctx.device.NewTensor(Shape{2}, ops::AccumulationType(options.dtype), Category::kOther);
  if (options.patience > 0) verdict_ = ctx.device.NewTensor(Shape{1}, DType::kF32, Category::kOther);
  TellReplicasApart();
}

// In the last pass, the last replicas may have fewer samples that count, or none.
void Validation::TellReplicasApart() {
  const int64_t in_a_pass = options_.batch * replicas_;
  if (replicas_ == 1 || options_.samples % in_a_pass == 0) return;
  std::vector<int> kinds;
  for (int r = 0; r < mesh_.world().size(); ++r)
    kinds.push_back(static_cast<int>(Counted(options_.samples / in_a_pass, PlaceOf(mesh_.shape(), r).dp)));
  mesh_.world().RanksDiffer(kinds, "in the last pass of a validation, some replicas have fewer samples");
}

int64_t Validation::Counted(int64_t pass, int64_t replica) const {
  return std::clamp<int64_t>(options_.samples - (pass * replicas_ + replica) * options_.batch, 0, options_.batch);
}

ValidationResult Validation::Run(const std::function<void()>& between) {
  nn::Context ctx = ctx_;
  ctx.training = false, ctx.for_backward = false;
  ctx.Launch(ops::Fill{.out = totals_, .value = 0});
  const int64_t in_a_pass = options_.batch * replicas_;
  for (int64_t pass = 0; pass * in_a_pass < options_.samples; ++pass) {
    between();
    Pass(ctx, pass);
  }
  ProcessGroup& stages = mesh_.Group(MeshGroup::kPp);
  if (stages.rank() + 1 == stages.size())
    mesh_.Group(MeshGroup::kBatch).AllReduce(totals_, ReduceOp::kSum).WaitOn(ctx.device.compute());
  stages.Broadcast(totals_, stages.size() - 1).WaitOn(ctx.device.compute());
  const auto items =
      static_cast<double>(options_.samples * mesh_.shape().cp * std::max<int64_t>(1, data_.target().shape.numel()));
  const auto classes = static_cast<double>(options_.classes);
  ValidationResult result;
  result.loss = ctx.device.Item(totals_.Slice(0, 1), StandIn{std::log(classes) * items, "validation loss"}) / items;
  const double right = ctx.device.Item(totals_.Slice(1, 1), StandIn{items / classes, "right answers"});
  if (options_.accuracy) result.accuracy = right / items;
  result.stop = options_.patience > 0 && Stops(result.loss);
  return result;
}

void Validation::Pass(nn::Context& ctx, int64_t number) {
  const int64_t first = (number * replicas_ + replica_) * options_.batch;
  const int64_t counted = Counted(number, replica_);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < options_.batch; ++i) indices.push_back(std::min(first + i, options_.samples - 1));
  const auto [logits, targets] = predict_(ctx, data_, indices);
  if (logits.empty()) return;  // only the last stage has logits
  const Tensor losses = loss_.Losses(ctx, logits, targets);
  if (counted == 0) return;
  const int64_t rows = losses.numel() / options_.batch * counted, classes = logits.dim(-1);
  ctx.Launch(ops::Sum{.in = losses.Slice(0, rows), .out = totals_.Slice(0, 1), .accumulate = true});
  loss_.CountCorrect(ctx, logits.Slice(0, Shape{rows, classes}), targets.Slice(0, rows), totals_.Slice(1, 1));
}

// All ranks stop if one would. A sum over ranks may differ between them in its last bits if a fabric adds in different
// orders. In simulations without data no rank stops.
bool Validation::Stops(double loss) {
  const float mine = patience_.RunsOut(loss) ? 1 : 0;
  ctx_.device.Upload(verdict_, [mine](std::span<std::byte> out) { std::memcpy(out.data(), &mine, sizeof(mine)); });
  mesh_.world().AllReduce(verdict_, ReduceOp::kMax).WaitOn(ctx_.device.compute());
  return ctx_.device.Item(verdict_, StandIn{0, "decision to stop"}) > 0;
}

}  // namespace twofold
