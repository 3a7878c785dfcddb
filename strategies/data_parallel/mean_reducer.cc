#include "strategies/data_parallel/mean_reducer.h"

#include <utility>

namespace twofold {
namespace {

class MeanReducer final : public Reducer {
 public:
  // If nothing is sent, nothing is rounded for it.
  MeanReducer(const Bucket& bucket, DType wire)
      : groups_(bucket.groups), dtype_(bucket.dtype), wire_(groups_.size() == 1 ? dtype_ : wire) {}

  Work Start(nn::Context& ctx, Tensor in, Tensor out, bool) override {
    if (in.dtype() != wire_) {
      Tensor cast = ctx.device.NewTensor(in.shape(), wire_, Category::kCommunication, "gradients to send");
      ctx.Launch(ops::Cast{.in = in, .out = cast});
      in = std::move(cast);
    }
    if (groups_.scatter == nullptr) {
      part_ = std::move(in);
      return Replicate();
    }
    replicates_ = groups_.replicate != nullptr;
    const int64_t shard = in.numel() / groups_.scatter->size();
    const bool direct = !out.empty() && out.dtype() == wire_;
    part_ = direct ? std::move(out) : in.Slice(groups_.scatter->rank() * shard, shard);
    return groups_.scatter->ReduceScatter(part_, in, ReduceOp::kAvg);
  }

  std::optional<Work> Next(nn::Context&) override {
    if (!std::exchange(replicates_, false)) return std::nullopt;
    return Replicate();
  }

  Tensor Mean(nn::Context&) override { return std::move(part_); }

  bool in_place() const override { return wire_ == dtype_; }
  bool elementwise() const override { return true; }
  // A wider type represents every value of a narrower one. BF16 and F16 do not represent all of each other's values. A
  // mean in the gradients' own type rounds as any sum does.
  bool rounds() const override { return wire_ != dtype_ && ElementSize(wire_) <= ElementSize(dtype_); }

 private:
  Work Replicate() { return groups_.replicate->AllReduce(part_, ReduceOp::kAvg); }

  const ReductionGroups groups_;
  const DType dtype_, wire_;
  Tensor part_;              // what this rank keeps of the mean, in the wire type
  bool replicates_ = false;  // the next message is the all-reduce
};

}  // namespace

MakeReducer MeanReducers(DType wire) {
  return [wire](nn::Context&, const Bucket& bucket) { return std::make_unique<MeanReducer>(bucket, wire); };
}

}  // namespace twofold
