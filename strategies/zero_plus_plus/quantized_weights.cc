#include "strategies/zero_plus_plus/quantized_weights.h"

#include <utility>

#include "strategies/data_parallel/sharded_units.h"

namespace twofold {
namespace {

constexpr int kBits = 8;
constexpr int64_t kBlock = 256;

class QuantizedGather final : public ParameterGather {
 public:
  explicit QuantizedGather(ProcessGroup& group) : group_(group) {}

  Work Start(nn::Context& ctx, const Tensor& shard, Tensor& whole) override {
    const nn::CodecWork work(ctx);
    const int64_t numel = shard.numel(), blocks = (numel + kBlock - 1) / kBlock, ranks = group_.size();
    const DType wide = ops::AccumulationType(whole.dtype());
    const auto tensor = [&ctx](int64_t n, DType type) {
      return ctx.device.NewTensor(Shape{n}, type, Category::kCommunication);
    };
    const Tensor codes = tensor(numel, DType::kU8), scales = tensor(blocks, wide);
    codes_ = tensor(ranks * numel, DType::kU8), scales_ = tensor(ranks * blocks, wide);
    ctx.Launch(ops::Quantise{.in = shard, .codes = codes, .scales = scales, .bits = kBits, .block = kBlock});
    work.Encoded(whole.bytes(), codes_.bytes() + scales_.bytes());
    group_.AllGather(codes_, codes);
    return group_.AllGather(scales_, scales);  // a group's work runs in order
  }

  void Finish(nn::Context& ctx, const Tensor& whole) override {
    const nn::CodecWork work(ctx);
    const int64_t numel = whole.numel() / group_.size(), blocks = scales_.numel() / group_.size();
    if (numel % kBlock == 0) {  // blocks do not end with a shard: all at once
      Decode(ctx, codes_, scales_, whole);
    } else {
      for (int64_t j = 0; j < group_.size(); ++j)
        Decode(ctx, codes_.Slice(j * numel, numel), scales_.Slice(j * blocks, blocks), whole.Slice(j * numel, numel));
    }
    codes_ = scales_ = Tensor();
  }

 private:
  static void Decode(nn::Context& ctx, const Tensor& codes, const Tensor& scales, const Tensor& out) {
    ctx.Launch(ops::Dequantise{.codes = codes, .scales = scales, .out = out, .bits = kBits, .block = kBlock});
  }

  ProcessGroup& group_;
  Tensor codes_, scales_;  // of all ranks, on their way
};

}  // namespace

MakeGather QuantizedWeights() {
  return [](nn::Context&, const Sharing& sharing, const Tensor&) -> std::unique_ptr<ParameterGather> {
    return std::make_unique<QuantizedGather>(*sharing.gather);
  };
}

}  // namespace twofold
