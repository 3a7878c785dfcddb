#include "strategies/zero_plus_plus/secondary_shard.h"

#include <utility>

#include "strategies/data_parallel/sharded_units.h"

namespace twofold {
namespace {

class SecondaryShard final : public ParameterGather {
 public:
  SecondaryShard(nn::Context& ctx, const Sharing& sharing, const Tensor& shard, std::unique_ptr<ParameterGather> all)
      : near_(*sharing.gather_near),
        all_(std::move(all)),
        second_(ctx.device.NewTensor(Shape{shard.numel() * sharing.shards() / near_.size()}, shard.dtype(),
                                     Category::kParameters)) {}

  Work Start(nn::Context& ctx, const Tensor& shard, Tensor& whole) override {
    return current_ ? near_.AllGather(whole, second_) : all_->Start(ctx, shard, whole);
  }
  void Finish(nn::Context& ctx, const Tensor& whole) override {
    if (current_) return;
    all_->Finish(ctx, whole);
    ctx.Launch(ops::Cast{.in = whole.Slice(near_.rank() * second_.numel(), second_.numel()), .out = second_});
    current_ = true;
  }
  void Updated() override { current_ = false; }

 private:
  ProcessGroup& near_;
  const std::unique_ptr<ParameterGather> all_;
  const Tensor second_;
  bool current_ = false;  // the second copy has the values of the shards
};

}  // namespace

MakeGather SecondaryShards(MakeGather all) {
  return [all = std::move(all)](nn::Context& ctx, const Sharing& sharing, const Tensor& shard) {
    return std::make_unique<SecondaryShard>(ctx, sharing, shard, all(ctx, sharing, shard));
  };
}

}  // namespace twofold
