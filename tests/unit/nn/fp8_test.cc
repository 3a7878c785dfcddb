// Linear layers in FP8: which operand is rounded how, what is kept for backward, and that blocks of both recipes learn.
#include <cmath>
#include <map>
#include <string>

#include "core/nn/linear.h"
#include "core/nn/rows.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace fp8_test {

using ops::Fp8Blocks, ops::Fp8Format;
using twofold::test::Cpu;

constexpr int64_t kIn = 260, kOut = 136, kBatch = 2, kLength = 70;

// Random numbers whose size differs from place to place, as no single scale fits well.
Tensor Uneven(Cpu& cpu, Shape shape, uint64_t seed) {
  Tensor t = cpu.New(std::move(shape), DType::kF32);
  const PhiloxKey key = MakeKey(seed, "uneven");
  for (int64_t i = 0; i < t.numel(); ++i) {
    const int64_t row = i / t.dim(-1), column = i % t.dim(-1);
    t.data<float>()[i] = std::ldexp(static_cast<float>(NormalAt(key, static_cast<uint64_t>(i))),
                                    3 * static_cast<int>((row / 50 + column / 90) % 9) - 12);
  }
  return t;
}

// Which of the blocks of a matrix with n columns element (i, j) is in.
int64_t BlockOf(Fp8Blocks blocks, int64_t n, int64_t i, int64_t j) {
  switch (blocks) {
    case Fp8Blocks::kTensor: return 0;
    case Fp8Blocks::kRow: return i * n + j / 128;
    case Fp8Blocks::kColumn: return i / 128 * n + j;
    case Fp8Blocks::kSquare: return i / 128 * n + j / 128;
  }
  return 0;
}

// The same tensor after rounding to FP8 and back, element by element.
Tensor Rounded(Cpu& cpu, const Tensor& t, Fp8Format format, Fp8Blocks blocks) {
  Tensor to = cpu.New(t.shape(), DType::kF32);
  const float* from = t.data<float>();
  std::map<int64_t, float> largest;
  const auto block = [&](int64_t i) { return BlockOf(blocks, t.dim(-1), i / t.dim(-1), i % t.dim(-1)); };
  for (int64_t i = 0; i < t.numel(); ++i) largest[block(i)] = std::max(largest[block(i)], std::abs(from[i]));
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float scale = ops::rules::Fp8ScaleOf(std::bit_cast<uint32_t>(largest[block(i)]), format);
    const uint8_t code = format == Fp8Format::kE4M3 ? ops::rules::ToFp8<Fp8Format::kE4M3>(from[i] / scale)
                                                    : ops::rules::ToFp8<Fp8Format::kE5M2>(from[i] / scale);
    to.data<float>()[i] = ops::rules::FromFp8(code, format) * scale;
  }
  return to;
}

std::string Bits(const Tensor& t) {
  return {static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes().value())};
}

// How the recipe rounds the operands of each product.
struct Rounding {
  Fp8Recipe recipe;
  Fp8Blocks x, weight, dy, x_of_weights, dy_of_weights;
  Fp8Format gradient;
};
constexpr Rounding kRoundings[] = {
    {Fp8Recipe::kCurrent, Fp8Blocks::kTensor, Fp8Blocks::kTensor, Fp8Blocks::kTensor, Fp8Blocks::kTensor,
     Fp8Blocks::kTensor, Fp8Format::kE5M2},
    {Fp8Recipe::kBlock, Fp8Blocks::kRow, Fp8Blocks::kSquare, Fp8Blocks::kRow, Fp8Blocks::kColumn, Fp8Blocks::kColumn,
     Fp8Format::kE4M3},
};

struct Layer {
  Layer(Cpu& cpu, Fp8Recipe recipe, bool keep_weights = false)
      : linear({.in = kIn, .out = kOut, .fp8 = {recipe, keep_weights}}) {
    linear.Finalize();
    test::Materialize(cpu.ctx, linear);
    weight = linear.Parameters()[0], bias = linear.Parameters()[1];
    weight->set_data(Uneven(cpu, weight->shape(), 1)), bias->set_data(Uneven(cpu, bias->shape(), 2));
  }
  Linear linear;
  Parameter *weight, *bias;
};

class Fp8Linear : public ::testing::TestWithParam<size_t> {
 protected:
  const Rounding& rounding() const { return kRoundings[GetParam()]; }
  Cpu cpu_;
  const Tensor x_ = Uneven(cpu_, {kBatch, kLength, kIn}, 3), dy_ = Uneven(cpu_, {kBatch, kLength, kOut}, 4);
};

// Each product is, to the bit, the F32 product of the operands after rounding; bias and its gradient are not rounded.
TEST_P(Fp8Linear, ProductsAreThoseOfTheRoundedOperands) {
  const Rounding& r = rounding();
  Layer fp8(cpu_, r.recipe), plain(cpu_, Fp8Recipe::kOff);
  Saved saved, of_plain;
  const Tensor y = fp8.linear.Forward(cpu_.ctx, x_, saved);
  const Tensor weight = Rounded(cpu_, plain.weight->data(), Fp8Format::kE4M3, r.weight);
  plain.weight->set_data(weight);
  EXPECT_EQ(Bits(y), Bits(plain.linear.Forward(cpu_.ctx, Rounded(cpu_, x_, Fp8Format::kE4M3, r.x), of_plain)));

  const Tensor dx = fp8.linear.BackwardInput(cpu_.ctx, dy_, saved);
  EXPECT_EQ(Bits(dx), Bits(plain.linear.BackwardInput(cpu_.ctx, Rounded(cpu_, dy_, r.gradient, r.dy), of_plain)));

  fp8.linear.BackwardWeights(cpu_.ctx, saved);
  EXPECT_TRUE(saved.empty());
  Saved again;
  plain.linear.Forward(cpu_.ctx, Rounded(cpu_, x_, Fp8Format::kE4M3, r.x_of_weights), again);
  plain.linear.Backward(cpu_.ctx, Rounded(cpu_, dy_, r.gradient, r.dy_of_weights), again);
  EXPECT_EQ(Bits(fp8.weight->gradient()), Bits(plain.weight->gradient()));
  Saved exact;
  plain.bias->ZeroGradient(), plain.weight->ZeroGradient();
  plain.linear.Forward(cpu_.ctx, x_, exact);
  plain.linear.Backward(cpu_.ctx, dy_, exact);
  EXPECT_EQ(Bits(fp8.bias->gradient()), Bits(plain.bias->gradient()));
  EXPECT_NE(Bits(fp8.weight->gradient()), Bits(plain.weight->gradient())) << "nothing was rounded";
}

TEST_P(Fp8Linear, GeluIsFusedLikewise) {
  const Rounding& r = rounding();
  Layer fp8(cpu_, r.recipe), plain(cpu_, Fp8Recipe::kOff);
  plain.weight->set_data(Rounded(cpu_, plain.weight->data(), Fp8Format::kE4M3, r.weight));
  Saved saved, of_plain;
  Tensor y, y_of_plain;
  const Tensor activated = fp8.linear.ForwardGelu(cpu_.ctx, x_, y, saved);
  EXPECT_EQ(Bits(activated),
            Bits(plain.linear.ForwardGelu(cpu_.ctx, Rounded(cpu_, x_, Fp8Format::kE4M3, r.x), y_of_plain, of_plain)));
  EXPECT_EQ(Bits(y), Bits(y_of_plain));
  EXPECT_EQ(Bits(fp8.linear.BackwardInputGelu(cpu_.ctx, dy_, x_, saved)),
            Bits(plain.linear.BackwardInputGelu(cpu_.ctx, Rounded(cpu_, dy_, r.gradient, r.dy), x_, of_plain)));
}

// The codes of a step's first product serve all others of the step: a weight that changes meanwhile is not seen. The
// next step rounds it again, and validations always do.
TEST_P(Fp8Linear, KeptWeightsAreRoundedOnceAStep) {
  Layer kept(cpu_, rounding().recipe, true), fresh(cpu_, rounding().recipe);
  const auto forward = [&](Layer& layer, Context ctx) {
    Saved saved;
    return Bits(layer.linear.Forward(ctx, x_, saved));
  };
  const auto input_gradient = [&](Layer& layer, Context ctx) {
    Saved saved;
    layer.linear.Forward(ctx, x_, saved);
    return Bits(layer.linear.BackwardInput(ctx, dy_, saved));
  };
  Context ctx = cpu_.ctx;
  const std::string y = forward(fresh, ctx), dx = input_gradient(fresh, ctx);
  EXPECT_EQ(forward(kept, ctx), y);
  const Bytes before = cpu_.Live(Category::kOther);
  for (Layer* layer : {&kept, &fresh}) layer->weight->set_data(Uneven(cpu_, layer->weight->shape(), 9));
  const std::string new_y = forward(fresh, ctx), new_dx = input_gradient(fresh, ctx);
  ASSERT_NE(new_y, y);
  EXPECT_EQ(forward(kept, ctx), y);
  EXPECT_EQ(input_gradient(kept, ctx), dx);
  Context validation = ctx;
  validation.training = false, validation.for_backward = false;
  EXPECT_EQ(forward(kept, validation), new_y);
  ++ctx.step;
  EXPECT_EQ(input_gradient(kept, ctx), new_dx);
  EXPECT_EQ(cpu_.Live(Category::kOther), before) << "a step allocated codes again";
}

// x is kept as codes and scales for the weight's gradient, and nothing else is left between passes.
TEST_P(Fp8Linear, KeepsOneByteAnElementAndTheScales) {
  Layer fp8(cpu_, rounding().recipe);
  Saved saved;
  const Bytes before = cpu_.Live(Category::kActivations);
  { const Tensor y = fp8.linear.Forward(cpu_.ctx, x_, saved); }
  constexpr int64_t kRows = kBatch * kLength, kBlockRows = (kRows + 127) / 128;
  const Tensor codes = saved[0], scales = saved[2];
  EXPECT_EQ(codes.bytes(), Bytes(kRows * kIn));
  EXPECT_EQ(scales.bytes(), Bytes(4 * (rounding().recipe == Fp8Recipe::kBlock ? kBlockRows * kIn : 1)));
  EXPECT_TRUE(saved[1].empty());
  const auto rounded_up = [](Bytes b) { return (b.value() + 511) / 512 * 512; };
  EXPECT_LE((cpu_.Live(Category::kActivations) - before).value(),
            rounded_up(codes.bytes()) + rounded_up(scales.bytes()));
  cpu_.ctx.for_backward = false;
  Saved none;
  fp8.linear.Forward(cpu_.ctx, x_, none);
  EXPECT_TRUE(none.empty());
}

// What recomputation keeps without running the product is what forward keeps.
TEST_P(Fp8Linear, FillsSavedAsForwardDoes) {
  Layer fp8(cpu_, rounding().recipe);
  Saved forward, filled;
  fp8.linear.Forward(cpu_.ctx, x_, forward);
  fp8.linear.FillSaved(cpu_.ctx, x_, filled);
  for (const size_t slot : {size_t{0}, size_t{2}}) EXPECT_EQ(Bits(forward[slot]), Bits(filled[slot]));
}

INSTANTIATE_TEST_SUITE_P(Recipes, Fp8Linear, ::testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "Current" : "Block"; });

}  // namespace fp8_test
}  // namespace twofold::nn
