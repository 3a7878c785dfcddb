#include "core/nn/parameter.h"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace parameter_test {

using twofold::test::Cpu;

template <class T>
void ExpectShardsEqualWhole(DType dtype, const Init& init) {
  Cpu cpu;
  const Parameter p("blocks.0.weight", Shape{7, 13}, dtype, init);
  const Tensor whole = cpu.New(p.shape(), dtype);
  p.Initialize(cpu.device, cpu.device.compute(), 42, whole);
  for (const int64_t size : {1, 3, 8, 30, 91}) {
    for (int64_t first = 0; first < p.numel(); first += size) {
      const int64_t count = std::min(size, p.numel() - first);
      const Tensor shard = cpu.New(Shape{count}, dtype);
      p.Initialize(cpu.device, cpu.device.compute(), 42, shard, first);
      EXPECT_EQ(std::memcmp(shard.data<T>(), whole.data<T>() + first, static_cast<size_t>(count) * sizeof(T)), 0)
          << "elements " << first << " to " << first + count;
    }
  }
}

TEST(ParameterTest, AShardOfTheInitialValueIsThatPartOfTheWhole) {
  for (const Init& init : {Init{Init::kConstant, 1.5}, Init{Init::kNormal, 0.5, 2}, Init{Init::kUniform, -1, 3}}) {
    ExpectShardsEqualWhole<double>(DType::kF64, init);
    ExpectShardsEqualWhole<float>(DType::kF32, init);
    ExpectShardsEqualWhole<BF16>(DType::kBF16, init);
  }
}

// Rows, columns and padding, in any stretch: what a rank draws is what the whole has there.
TEST(ParameterTest, APartDrawsTheElementsOfTheWholeThatItHolds) {
  const Shape whole{6, 5, 2};
  const ShardLayout layouts[] = {ShardLayout::Rows(whole, {{3, 2}, {-1, 1}, {0, 1}}),
                                 ShardLayout::Along(whole, 1, 1, 3), ShardLayout::Along(whole, 2, 1, 1),
                                 ShardLayout::Whole(whole)};
  for (const Init& init : {Init{Init::kConstant, 1.5}, Init{Init::kNormal, 0.5, 2}}) {
    Cpu cpu;
    const Tensor all = cpu.New(whole, DType::kF64);
    Parameter("w", whole, DType::kF64, init).Initialize(cpu.device, cpu.device.compute(), 42, all);
    for (const ShardLayout& layout : layouts) {
      std::vector<double> expected;
      for (const ShardLayout::Part& part : layout.parts) {
        for (int64_t i = 0; i < part.where.count; ++i)
          expected.push_back(part.padding ? 0 : all.data<double>()[part.where.IndexOf(i)]);
      }
      const auto numel = static_cast<int64_t>(expected.size());
      Parameter p("w", Shape{numel}, DType::kF64, init);
      p.set_shard_layout(layout);
      for (int64_t first = 0; first < numel; ++first) {
        for (const int64_t count : {int64_t{1}, (numel - first + 1) / 2, numel - first}) {
          const Tensor shard = cpu.New(Shape{count}, DType::kF64);
          p.Initialize(cpu.device, cpu.device.compute(), 42, shard, first);
          EXPECT_EQ(twofold::test::Values(shard),
                    std::vector<double>(expected.begin() + first, expected.begin() + first + count));
          int64_t at = first;
          p.ForParts(first, count, [&](const Parameter::Stretch& stretch) {
            EXPECT_EQ(stretch.local, at);
            for (int64_t i = 0; i < stretch.where.count; ++i, ++at) {
              if (stretch.part.padding || init.kind == Init::kConstant) continue;
              EXPECT_EQ(all.data<double>()[stretch.where.IndexOf(i)], expected[static_cast<size_t>(at)]);
            }
          });
          EXPECT_EQ(at, first + count);
        }
      }
    }
  }
  Parameter p("w", Shape{3}, DType::kF64, {});
  EXPECT_DEATH(p.set_shard_layout(ShardLayout::Whole(Shape{4})), "w: its parts have other than its number of elements");
}

TEST(ParameterTest, SeedAndNameDecideTheValue) {
  Cpu cpu;
  auto draw = [&](const std::string& name, uint64_t seed) {
    const Parameter p(name, Shape{8}, DType::kF64, {Init::kNormal, 0, 1});
    const Tensor t = cpu.New(Shape{8}, DType::kF64);
    p.Initialize(cpu.device, cpu.device.compute(), seed, t);
    return twofold::test::Values(t);
  };
  EXPECT_EQ(draw("a", 1), draw("a", 1));
  EXPECT_NE(draw("a", 1), draw("a", 2));
  EXPECT_NE(draw("a", 1), draw("b", 1));
}

TEST(ParameterTest, GradientOverwritesThenAdds) {
  Cpu cpu;
  Parameter p("w", Shape{2}, DType::kF64, {});
  p.set_gradient(cpu.New(Shape{2}, DType::kF64));
  int ready = 0;
  p.SetReadyHook([&](Parameter&) { ++ready; });
  p.AddUse();
  EXPECT_FALSE(p.BeginGradient().accumulate);
  p.EndGradient();
  EXPECT_EQ(ready, 0) << "one of two uses is done";
  EXPECT_TRUE(p.BeginGradient().accumulate);
  p.EndGradient();
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(p.BeginGradient().accumulate);
  p.EndGradient();
  p.ZeroGradient();
  EXPECT_FALSE(p.BeginGradient().accumulate);
  p.EndGradient();
  EXPECT_EQ(ready, 2);
}

}  // namespace parameter_test
}  // namespace twofold::nn
