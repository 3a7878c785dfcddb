#include "strategies/compression/quantize.h"

#include "core/base/strings.h"

namespace twofold {
namespace {

// Codes of 4 or 8 bits.
class Quantizer final : public Codec {
 public:
  Quantizer(nn::Context& ctx, const Bucket& bucket, const QuantizeOptions& options)
      : options_(options),
        wide_(ops::AccumulationType(bucket.dtype)),
        key_(MakeKey(ctx.seed, StrCat("quantize bucket ", bucket.index, " rank ", bucket.groups.rank()))) {}

  EncodedSize SizeOf(int64_t numel, int64_t) const override {
    return {.body = ops::CodeBytes(numel, options_.bits),
            .side = (numel + options_.block - 1) / options_.block,
            .side_type = wide_};
  }

  void Encode(nn::Context& ctx, const Tensor& in, const Tensor& residual, const Encoded& out,
              const Place& place) override {
    const uint64_t draw = MakeKey(key_.value, static_cast<uint64_t>(ctx.step)).value;
    ctx.Launch(ops::Quantise{
        .in = in,
        .codes = out.body,
        .scales = out.side,
        .residual = residual,
        .stochastic = options_.stochastic,
        .key = MakeKey(draw, static_cast<uint64_t>(place.round) << 8 | static_cast<uint64_t>(place.stage)),
        .where = {.first = place.first},
        .bits = options_.bits,
        .block = options_.block});
  }

  void Decode(nn::Context& ctx, const Encoded& in, const Tensor& out, bool accumulate) override {
    ctx.Launch(ops::Dequantise{.codes = in.body,
                               .scales = in.side,
                               .out = out,
                               .accumulate = accumulate,
                               .bits = options_.bits,
                               .block = options_.block});
  }

  void Scale(nn::Context& ctx, const Encoded& in, double factor) override {
    ctx.Launch(ops::Scale{.x = in.side, .factor = factor});
  }

 private:
  const QuantizeOptions options_;
  const DType wide_;
  const PhiloxKey key_;
};

// Elements as they are.
class Identity final : public Codec {
 public:
  explicit Identity(const Bucket& bucket) : wide_(ops::AccumulationType(bucket.dtype)) {}

  EncodedSize SizeOf(int64_t numel, int64_t) const override { return {.body = numel, .body_type = wide_}; }
  void Encode(nn::Context& ctx, const Tensor& in, const Tensor& residual, const Encoded& out, const Place&) override {
    ctx.Launch(ops::Cast{.in = in, .out = out.body});
    if (!residual.empty()) ctx.Launch(ops::Fill{.out = residual, .value = 0});
  }
  void Decode(nn::Context& ctx, const Encoded& in, const Tensor& out, bool accumulate) override {
    if (accumulate) return ctx.Launch(ops::AddTo{.in = in.body, .out = out});
    ctx.Launch(ops::Cast{.in = in.body, .out = out});
  }
  void Scale(nn::Context& ctx, const Encoded& in, double factor) override {
    ctx.Launch(ops::Scale{.x = in.body, .factor = factor});
  }

 private:
  const DType wide_;
};

}  // namespace

MakeCodec QuantizeCodecs(const QuantizeOptions& options) {
  return [options](nn::Context& ctx, const Bucket& bucket) -> std::unique_ptr<Codec> {
    if (options.bits == 32) return std::make_unique<Identity>(bucket);
    return std::make_unique<Quantizer>(ctx, bucket, options);
  };
}

}  // namespace twofold
