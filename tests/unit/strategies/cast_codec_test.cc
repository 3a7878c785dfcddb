// Gradients on their way in another type: values, types, and what is held meanwhile.
#include "strategies/data_parallel/cast_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace cast_codec_test {

using test::ExpectOnRanks;

using ::testing::Each;

float ValueOn(int rank, int64_t i) {
  return static_cast<float>(std::sin(static_cast<double>(7 * i + 3 * rank)) + rank);
}

// Every rank's element in the wire type, their mean in f32, rounded to the wire type once.
template <class Wire>
float Expected(int ranks, int64_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += static_cast<float>(Wire(ValueOn(r, i)));
  return static_cast<float>(Wire(sum / static_cast<float>(ranks)));
}

template <class Wire>
void ExpectRoundsOnTheWay() {
  ExpectOnRanks(3, [](RankContext& ctx) -> std::string {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
    const std::unique_ptr<GradientCodec> codec = MakeGradientCodec(DType::kF32, DTypeOf<Wire>::value);
    std::vector<Tensor> buckets;
    for (const int64_t n : {33, 5}) {
      buckets.push_back(nn.device.NewTensor(Shape{n}, DType::kF32, Category::kGradients));
    }
    const auto communication = [&] {
      return ctx.memory().live_by_category[static_cast<size_t>(Category::kCommunication)].value();
    };
    const int64_t before = communication();
    for (int step = 0; step < 2; ++step) {
      std::vector<Work> works;
      for (size_t b = 0; b < buckets.size(); ++b) {
        for (int64_t i = 0; i < buckets[b].numel(); ++i) buckets[b].data<float>()[i] = ValueOn(ctx.rank(), i + step);
        works.push_back(codec->Reduce(nn, b, buckets[b], ctx.world()));
      }
      if (communication() < before + 38 * static_cast<int64_t>(sizeof(Wire)))
        return "copies are not accounted as communication";
      for (size_t b = 0; b < buckets.size(); ++b) {
        works[b].WaitOn(nn.device.compute());
        codec->Decode(nn, b, buckets[b]);
        for (int64_t i = 0; i < buckets[b].numel(); ++i) {
          const float got = buckets[b].data<float>()[i], want = Expected<Wire>(ctx.world_size(), i + step);
          if (got != want)
            return "element " + std::to_string(i) + " is " + std::to_string(got) + ", not " + std::to_string(want);
        }
      }
      works.clear();
      if (communication() != before) return "copies are left";
    }
    return "";
  });
}

TEST(CastCodec, RoundsOnTheWayAndSumsWide) {
  ExpectRoundsOnTheWay<BF16>();
  ExpectRoundsOnTheWay<F16>();
}

TEST(CastCodec, AWiderWireRoundsOnceAtTheEnd) {
  ExpectOnRanks(3, [](RankContext& ctx) -> std::string {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
    Tensor bucket = nn.device.NewTensor(Shape{9}, DType::kBF16, Category::kGradients);
    for (int64_t i = 0; i < 9; ++i) bucket.data<BF16>()[i] = BF16(ValueOn(ctx.rank(), i));
    const std::unique_ptr<GradientCodec> codec = MakeGradientCodec(DType::kBF16, DType::kF32);
    codec->Reduce(nn, 0, bucket, ctx.world()).WaitOn(nn.device.compute());
    codec->Decode(nn, 0, bucket);
    for (int64_t i = 0; i < 9; ++i) {
      float sum = 0;
      for (int r = 0; r < 3; ++r) sum += static_cast<float>(BF16(ValueOn(r, i)));
      if (bucket.data<BF16>()[i].bits != BF16(sum / 3).bits) return "element " + std::to_string(i);
    }
    return "";
  });
}

TEST(CastCodec, OfOneTypeIsNone) {
  const std::unique_ptr<GradientCodec> codec = MakeGradientCodec(DType::kBF16, DType::kBF16);
  EXPECT_NE(dynamic_cast<IdentityCodec*>(codec.get()), nullptr);
}

}  // namespace cast_codec_test
}  // namespace twofold
