#include "strategies/compression/one_bit.h"

namespace twofold {
namespace {

class OneBit final : public Codec {
 public:
  explicit OneBit(const Bucket& bucket) : wide_(ops::AccumulationType(bucket.dtype)) {}

  EncodedSize SizeOf(int64_t numel, int64_t) const override {
    return {.body = (numel + 7) / 8, .side = (numel + ops::kSignBlock - 1) / ops::kSignBlock, .side_type = wide_};
  }
  void Encode(nn::Context& ctx, const Tensor& in, const Tensor& residual, const Encoded& out, const Place&) override {
    ctx.Launch(ops::SignPack{.in = in, .signs = out.body, .scales = out.side, .residual = residual});
  }
  void Decode(nn::Context& ctx, const Encoded& in, const Tensor& out, bool accumulate) override {
    ctx.Launch(ops::SignUnpack{.signs = in.body, .scales = in.side, .out = out, .accumulate = accumulate});
  }
  void Scale(nn::Context& ctx, const Encoded& in, double factor) override {
    ctx.Launch(ops::Scale{.x = in.side, .factor = factor});
  }

 private:
  const DType wide_;
};

}  // namespace

MakeCodec OneBitCodecs() {
  return [](nn::Context&, const Bucket& bucket) { return std::make_unique<OneBit>(bucket); };
}

}  // namespace twofold
