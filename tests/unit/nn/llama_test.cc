// Llama's structure, and its block against a plain implementation written from the papers.
#include "core/nn/llama.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/language_models.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace llama_test {

using twofold::test::Cpu;
using twofold::test::ExpectMoments;
using twofold::test::Materialize;
using twofold::test::Random;
using twofold::test::RandomIds;
using twofold::test::Scatter;
using twofold::test::Values;

// Published: 6,738,415,616 (Llama 2 7B), 8,030,261,248 (Llama 3 8B) and 405,853,388,800 (Llama 3.1 405B).
TEST(LlamaTest, PublishedParameterCounts) {
  const auto count = [](const LlamaConfig& config) { return LlamaModel(config).ParameterCount(); };
  EXPECT_EQ(count({.layers = 32, .hidden = 4096, .heads = 32, .vocab = 32000, .ffn = 11008, .sequence = 4096}),
            6738415616);
  EXPECT_EQ(
      count(
          {.layers = 32, .hidden = 4096, .heads = 32, .vocab = 128256, .kv_heads = 8, .ffn = 14336, .sequence = 8192}),
      8030261248);
  EXPECT_EQ(count({.layers = 126,
                   .hidden = 16384,
                   .heads = 128,
                   .vocab = 128256,
                   .kv_heads = 8,
                   .ffn = 53248,
                   .sequence = 8192}),
            405853388800);
}

TEST(LlamaTest, NamesAndDecay) {
  LlamaModel model(
      {.layers = 1, .hidden = 4, .heads = 2, .vocab = 5, .kv_heads = 1, .ffn = 6, .sequence = 3, .qkv_bias = true});
  model.Finalize();
  std::vector<std::string> names, plain;
  for (const Parameter* p : model.Parameters()) {
    names.push_back(p->name());
    if (p->role() == Role::kNorm || p->role() == Role::kBias) plain.push_back(p->name());
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("token_embedding.weight", "blocks.0.norm1.weight", "blocks.0.attention.qkv.weight",
                                     "blocks.0.attention.qkv.bias", "blocks.0.attention.projection.weight",
                                     "blocks.0.norm2.weight", "blocks.0.mlp.gate_up.weight",
                                     "blocks.0.mlp.projection.weight", "final_norm.weight", "head.weight"));
  EXPECT_THAT(plain, ::testing::ElementsAre("blocks.0.norm1.weight", "blocks.0.attention.qkv.bias",
                                            "blocks.0.norm2.weight", "final_norm.weight"));
}

TEST(LlamaTest, InitialValues) {
  Cpu cpu;
  LlamaModel model(
      {.layers = 2, .hidden = 64, .heads = 2, .vocab = 100, .ffn = 96, .sequence = 8, .dtype = DType::kF64});
  model.Finalize();
  Materialize(cpu.ctx, model);
  for (const Parameter* p : model.Parameters()) {
    const bool norm = p->name().find("norm") != std::string::npos,
               residual = p->name().find("projection") != std::string::npos;
    const double deviation = norm ? 0 : residual ? 0.01 : 0.02;  // 0.02 / sqrt(2 * 2)
    ExpectMoments(*p, norm ? 1 : 0, deviation);
  }
}

TEST(LlamaTest, PartsInARowAreTheWhole) {
  twofold::test::ExpectPartsInARowAreTheWhole<LlamaModel>(
      LlamaConfig{.layers = 3, .hidden = 8, .heads = 2, .vocab = 11, .ffn = 12, .sequence = 5, .dtype = DType::kF64});
}

// ---- A block, plainly ----
using Vector = std::vector<double>;

struct Plain {
  int64_t hidden, heads, kv_heads, dim, ffn;
  double theta, eps;
  Vector norm1, qkv, qkv_bias, projection, norm2, gate_up, down;  // in the order of Parameters()

  static Vector Times(const Vector& w, const Vector& x) {  // w [out, in]
    Vector y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    return y;
  }
  Vector Norm(const Vector& gain, Vector x) const {
    double squares = 0;
    for (double v : x) squares += v * v;
    for (size_t i = 0; i < x.size(); ++i) x[i] *= gain[i] / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    return x;
  }
  // Su et al. 2021 as complex numbers: element i and element i + dim/2 are the two parts of one.
  Vector Turned(Vector x, int64_t position) const {
    const size_t half = static_cast<size_t>(dim) / 2;
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::exp(-std::log(theta) * static_cast<double>(i) / static_cast<double>(half));
      const double re = x[i], im = x[i + half];
      x[i] = re * std::cos(angle) - im * std::sin(angle);
      x[i + half] = re * std::sin(angle) + im * std::cos(angle);
    }
    return x;
  }
  std::vector<Vector> Forward(std::vector<Vector> x) const {  // one sequence
    std::vector<std::vector<Vector>> q(x.size()), k(x.size()), v(x.size());
    for (size_t p = 0; p < x.size(); ++p) {
      Vector all = Times(qkv, Norm(norm1, x[p]));
      for (size_t i = 0; i < all.size(); ++i) all[i] += qkv_bias[i];
      auto at = all.begin();
      const auto take = [&](int64_t count, std::vector<Vector>& into, bool turn) {
        for (int64_t h = 0; h < count; ++h, at += dim)
          into.push_back(turn ? Turned(Vector(at, at + dim), static_cast<int64_t>(p)) : Vector(at, at + dim));
      };
      take(heads, q[p], true), take(kv_heads, k[p], true), take(kv_heads, v[p], false);
    }
    for (size_t p = x.size(); p-- > 0;) {
      Vector out;
      for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
        const size_t kv = h * static_cast<size_t>(kv_heads) / static_cast<size_t>(heads);
        Vector weight, mixed(static_cast<size_t>(dim));
        double sum = 0;
        for (size_t j = 0; j <= p; ++j) {
          double score = 0;
          for (size_t d = 0; d < mixed.size(); ++d) score += q[p][h][d] * k[j][kv][d];
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weight.back();
        }
        for (size_t j = 0; j <= p; ++j)
          for (size_t d = 0; d < mixed.size(); ++d) mixed[d] += weight[j] / sum * v[j][kv][d];
        out.insert(out.end(), mixed.begin(), mixed.end());
      }
      const Vector attended = Times(projection, out);
      for (size_t i = 0; i < attended.size(); ++i) x[p][i] += attended[i];
      const Vector gated = Times(gate_up, Norm(norm2, x[p]));
      Vector inner(static_cast<size_t>(ffn));
      for (size_t i = 0; i < inner.size(); ++i)
        inner[i] = gated[i] / (1 + std::exp(-gated[i])) * gated[i + inner.size()];
      const Vector fed = Times(down, inner);
      for (size_t i = 0; i < fed.size(); ++i) x[p][i] += fed[i];
    }
    return x;
  }
};

TEST(LlamaTest, ABlockIsWhatThePapersSay) {
  for (const bool unfused : {false, true}) {
    Cpu cpu;
    const LlamaConfig c{.layers = 2,
                        .hidden = 12,
                        .heads = 6,
                        .kv_heads = 2,
                        .head_dim = 4,
                        .ffn = 10,
                        .sequence = 9,
                        .rope_theta = 500,
                        .norm_eps = 1e-3,
                        .qkv_bias = true,
                        .unfused_attention = unfused,
                        .dtype = DType::kF64};
    const auto block = MakeLlamaBlock(c, MakeRotaryTable(c));
    block->Finalize();
    Materialize(cpu.ctx, *block);
    Scatter(*block);
    std::vector<Vector> w;
    for (const Parameter* p : block->Parameters()) w.push_back(Values(p->data()));
    ASSERT_EQ(w.size(), 7u);
    const Plain plain{12, 6, 2, 4, 10, 500, 1e-3, w[0], w[1], w[2], w[3], w[4], w[5], w[6]};
    const Tensor x = Random(cpu, Shape{2, 7, 12}, 5);
    Saved saved;
    const Vector got = Values(block->Forward(cpu.ctx, x, saved)), in = Values(x);
    for (size_t b = 0; b < 2; ++b) {
      std::vector<Vector> rows;
      for (size_t p = 0; p < 7; ++p)
        rows.emplace_back(in.begin() + static_cast<int64_t>((b * 7 + p) * 12),
                          in.begin() + static_cast<int64_t>((b * 7 + p + 1) * 12));
      const std::vector<Vector> want = plain.Forward(rows);
      for (size_t p = 0; p < 7; ++p)
        for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(got[(b * 7 + p) * 12 + i], want[p][i], 1e-12);
    }
  }
}

// The rule of Llama 3.1's published code in its own terms, wavelengths.
TEST(RopeTest, Llama3StretchesLongWavelengths) {
  const RopeScaling scaling{.kind = RopeScaling::kLlama3,
                            .factor = 8,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4,
                            .original_sequence = 8192};
  const std::vector<double> plain = RopeFrequencies({.head_dim = 128, .theta = 500000});
  const std::vector<double> scaled = RopeFrequencies({.head_dim = 128, .theta = 500000, .scaling = scaling});
  ASSERT_EQ(plain.size(), 64u);
  int kept = 0, stretched = 0, between = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(plain[i], 1 / std::pow(500000, static_cast<double>(2 * i) / 128), 1e-15);
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 8192.0 / 4) {
      ++kept;
      EXPECT_EQ(scaled[i], plain[i]);
    } else if (wavelength > 8192) {
      ++stretched;
      EXPECT_EQ(scaled[i], plain[i] / 8);
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      ++between;
      EXPECT_NEAR(scaled[i], (1 - smooth) * plain[i] / 8 + smooth * plain[i], 1e-15);
    }
  }
  EXPECT_TRUE(kept > 20 && stretched > 20 && between > 2) << kept << " " << between << " " << stretched;
  const RopeScaling linear{.kind = RopeScaling::kLinear, .factor = 4};
  EXPECT_EQ(RopeFrequencies({.head_dim = 8, .scaling = linear})[2], RopeFrequencies({.head_dim = 8})[2] / 4);
}

TEST(RopeTest, TheTableIsMadeOnce) {
  Cpu cpu;
  const LlamaConfig c{
      .layers = 3, .hidden = 8, .heads = 2, .vocab = 11, .ffn = 12, .sequence = 5, .dtype = DType::kF64};
  LlamaModel model(c);
  model.Finalize();
  Materialize(cpu.ctx, model);
  for (int i = 0; i < 2; ++i) {
    Saved saved;
    model.Forward(cpu.ctx, RandomIds(cpu, Shape{1, 5}, 11, 1), saved);
    EXPECT_EQ(cpu.Live(Category::kOther), Bytes(512)) << "5 rows of 4, rounded up";
  }
}

}  // namespace llama_test
}  // namespace twofold::nn
