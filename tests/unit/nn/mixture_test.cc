// Mixtures of experts: against a plain implementation, by differences, and what they keep, count and are called.
#include "core/nn/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/nn/flops.h"
#include "core/nn/loss.h"
#include "gmock/gmock.h"
#include "tests/unit/nn/gradient_check.h"
#include "tests/unit/nn/language_models.h"
#include "tests/unit/nn/symbolic_device.h"

namespace twofold::nn {
namespace mixture_test {

using twofold::test::Cpu;
using twofold::test::Gradients;
using twofold::test::Materialize;
using twofold::test::Random;
using twofold::test::RandomIds;
using twofold::test::Scatter;
using twofold::test::SymbolicDevice;
using twofold::test::Values;

MixtureConfig Config(int64_t top_k, double capacity_factor) {
  return {
      .hidden = 4, .ffn = 5, .experts = 4, .top_k = top_k, .capacity_factor = capacity_factor, .dtype = DType::kF64};
}

MixtureConfig Dropless(int64_t top_k) {
  MixtureConfig config = Config(top_k, 0);
  config.dropless = true;
  return config;
}

TEST(MixtureTest, Capacity) {
  const MixtureConfig config{.experts = 8, .top_k = 2, .capacity_factor = 1.25};
  EXPECT_EQ(ExpertCapacity(config, 4096), 1280);
  EXPECT_EQ(ExpertCapacity(config, 1), 1) << "rounded up";
  EXPECT_EQ(ExpertCapacity(config, 33), 11);
  EXPECT_EQ(ExpertCapacity({.experts = 8, .top_k = 2, .capacity_factor = 4}, 100), 100);
  EXPECT_EQ(ExpertCapacity({.experts = 8, .top_k = 2, .capacity_factor = 9}, 100), 100)
      << "no more than there are tokens";
  EXPECT_EQ(ExpertCapacity({.experts = 4, .top_k = 2, .capacity_factor = 1.1}, 40), 22)
      << "1.1 is a little more than 11/10";
}

TEST(GradientCheck, ExpertLinear) {
  for (const bool transposed : {false, true}) {
    for (const int64_t senders : {1, 3}) {
      Cpu cpu;
      ExpertLinear layer({.experts = 2, .in = 3, .out = 5, .transposed = transposed, .dtype = DType::kF64});
      CheckModule(cpu, layer, Random(cpu, Shape{senders, 2, 4, 3}, 5));
    }
  }
}

TEST(GradientCheck, Mixture) {
  for (const int64_t top_k : {1, 2, 4}) {
    for (const double capacity_factor : {0.7, 4.0}) {
      Cpu cpu;
      Mixture layer(Config(top_k, capacity_factor));
      CheckModule(cpu, layer, Random(cpu, Shape{2, 5, 4}, 10));
    }
  }
}

TEST(GradientCheck, DroplessMixture) {
  for (const int64_t top_k : {1, 2, 4}) {
    Cpu cpu;
    Mixture layer(Dropless(top_k));
    CheckModule(cpu, layer, Random(cpu, Shape{2, 5, 4}, 10));
  }
}

// y of the tokens, one by one; how many choices found no room.
struct Mixed {
  std::vector<double> y;
  int dropped = 0;
};
Mixed PlainMixture(const MixtureConfig& c, const Module& module, const std::vector<double>& x) {
  const std::vector<double> router = Values(module.Parameters()[0]->data()),
                            gate_up = Values(module.Parameters()[1]->data()),
                            projection = Values(module.Parameters()[2]->data());
  const auto h = static_cast<size_t>(c.hidden), ffn = static_cast<size_t>(c.ffn), n = static_cast<size_t>(c.experts);
  const size_t tokens = x.size() / h;
  std::vector<int64_t> taken(n);
  Mixed plain{.y = std::vector<double>(x.size())};
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> logits(n);
    for (size_t e = 0; e < n; ++e)
      for (size_t i = 0; i < h; ++i) logits[e] += router[e * h + i] * x[t * h + i];
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const size_t over = c.top_k == 1 ? n : static_cast<size_t>(c.top_k);
    double sum = 0;
    for (size_t j = 0; j < over; ++j) sum += std::exp(logits[order[j]]);
    for (size_t j = 0; j < static_cast<size_t>(c.top_k); ++j) {
      const size_t e = order[j];
      if (taken[e]++ >= ExpertCapacity(c, static_cast<int64_t>(tokens))) {
        ++plain.dropped;
        continue;
      }
      for (size_t f = 0; f < ffn; ++f) {
        double gate = 0, up = 0;
        for (size_t i = 0; i < h; ++i) {
          gate += gate_up[(e * 2 * ffn + f) * h + i] * x[t * h + i];
          up += gate_up[(e * 2 * ffn + ffn + f) * h + i] * x[t * h + i];
        }
        const double mid = gate / (1 + std::exp(-gate)) * up;
        for (size_t i = 0; i < h; ++i)
          plain.y[t * h + i] += std::exp(logits[e]) / sum * mid * projection[(e * ffn + f) * h + i];
      }
    }
  }
  return plain;
}

TEST(MixtureTest, AgainstOneTokenAfterAnother) {
  for (const int64_t top_k : {1, 2, 4}) {
    for (const double capacity_factor : {0.5, 1.0, 4.0}) {
      Cpu cpu;
      const MixtureConfig config = Config(top_k, capacity_factor);
      Mixture layer(config);
      layer.Finalize();
      Materialize(cpu.ctx, layer);
      Scatter(layer);
      const Tensor x = Random(cpu, Shape{3, 7, 4}, 21);
      Saved saved;
      const std::vector<double> got = Values(layer.Forward(cpu.ctx, x, saved));
      const Mixed want = PlainMixture(config, layer, Values(x));
      EXPECT_EQ(want.dropped > 0, capacity_factor < 1 || (capacity_factor == 1 && top_k < 4))
          << "what the case is about";
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want.y[i], 1e-12) << top_k << " " << capacity_factor << " " << i;
    }
  }
}

// The same sums as with room for all, which the test before holds against plain loops. An expert that nobody chooses
// has a gradient of zero, even where an older one was.
TEST(MixtureTest, DroplessIsAMixtureWithRoomForAll) {
  const auto step = [](MixtureConfig config) {
    Cpu cpu;
    Mixture layer(config);
    layer.Finalize();
    Materialize(cpu.ctx, layer);
    Scatter(layer);
    double* router = layer.Parameters()[0]->data().data<double>();
    for (int i = 0; i < 4; ++i) router[2 * 4 + i] = -100;  // of expert 2
    for (Parameter* p : layer.Parameters()) std::fill_n(p->gradient().data<double>(), p->numel(), NAN);
    const Tensor x = Random(cpu, Shape{3, 7, 4}, 21);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = std::abs(x.data<double>()[i]);
    Saved saved;
    std::vector<std::vector<double>> all = {Values(layer.Forward(cpu.ctx, x, saved))};
    all.push_back(Values(layer.Backward(cpu.ctx, Random(cpu, Shape{3, 7, 4}, 22), saved)));
    EXPECT_TRUE(saved.empty());
    for (std::vector<double>& gradient : Gradients(layer)) all.push_back(std::move(gradient));
    return all;
  };
  for (const int64_t top_k : {1, 3}) {
    const auto want = step(Config(top_k, 4)), got = step(Dropless(top_k));
    ASSERT_EQ(got.size(), want.size());
    for (size_t v = 0; v < got.size(); ++v) {
      ASSERT_EQ(got[v].size(), want[v].size());
      for (size_t i = 0; i < got[v].size(); ++i) ASSERT_NEAR(got[v][i], want[v][i], 1e-12) << v << " " << i;
    }
    for (size_t i = 2 * 2 * 5 * 4; i < 3 * 2 * 5 * 4; ++i) ASSERT_EQ(got[3][i], 0) << "gate_up of expert 2";
  }
}

// ---- Choices where there are no data ----

TEST(DivideChoices, SumsExactlyWithTheLargestRemaindersFirst) {
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(DivideChoices({}, 4, 8, 2), (Counts{4, 4, 4, 4}));
  EXPECT_EQ(DivideChoices({}, 4, 3, 2), (Counts{2, 2, 1, 1})) << "of equals the first";
  EXPECT_EQ(DivideChoices(std::vector<double>{1, 2, 3, 4}, 4, 10, 1), (Counts{1, 2, 3, 4}));
  EXPECT_EQ(DivideChoices(std::vector<double>{5, 5, 11}, 3, 10, 1), (Counts{3, 2, 5})) << "2.38, 2.38, 5.24";
  EXPECT_EQ(DivideChoices(std::vector<double>{0, 1, 0}, 3, 5, 1), (Counts{0, 5, 0}));
}

TEST(DivideChoices, GivesNoExpertATokenTwice) {
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(DivideChoices(std::vector<double>{100, 1, 1}, 3, 10, 2), (Counts{10, 5, 5}));
  EXPECT_EQ(DivideChoices(std::vector<double>{100, 50, 1}, 3, 10, 2), (Counts{10, 10, 0})) << "9.8 is rounded up";
  EXPECT_EQ(DivideChoices(std::vector<double>{1, 0, 0}, 3, 10, 2), (Counts{10, 5, 5})) << "someone must get the rest";
  EXPECT_EQ(DivideChoices(std::vector<double>{3, 2, 1}, 3, 7, 3), (Counts{7, 7, 7}));
}

TEST(DivideChoices, GivesBackWhatWasCounted) {
  const std::vector<double> counted = {4096, 0, 13, 997, 3333, 2, 1, 7942};
  EXPECT_EQ(DivideChoices(counted, 8, 16384 / 2, 2), std::vector<int64_t>(counted.begin(), counted.end()));
}

TEST(AssumedRouting, ZipfSharesFallWithThePopularity) {
  std::vector<double> shares = ZipfShares(64, 1.5, 3);
  EXPECT_NE(shares, ZipfShares(64, 1.5, 4)) << "others are popular";
  EXPECT_EQ(shares, ZipfShares(64, 1.5, 3));
  EXPECT_FALSE(std::is_sorted(shares.rbegin(), shares.rend()));
  std::sort(shares.rbegin(), shares.rend());
  for (size_t i = 0; i < shares.size(); ++i) EXPECT_DOUBLE_EQ(shares[i], std::pow(i + 1, -1.5));
}

TEST(AssumedRouting, RowsAreForBlocksAndRanks) {
  const AssumedRouting routing({{.block = 1, .rank = 2, .shares = {1}}, {.block = 1, .shares = {2}}, {.shares = {3}}});
  EXPECT_TRUE(routing.ranks_differ());
  EXPECT_EQ(routing.SharesOf(1, 2)[0], 1);
  EXPECT_EQ(routing.SharesOf(1, 3)[0], 2);
  EXPECT_EQ(routing.SharesOf(0, 2)[0], 3);
  EXPECT_TRUE(AssumedRouting().SharesOf(0, 0).empty());
}

// The gradient of aux_loss * E * sum f P beside that of the loss, in proportion to ctx.loss_factor.
TEST(MixtureTest, TheAuxiliaryLossIsAGradientOfTheRouterAlone) {
  const auto gradients = [](double aux_loss, double loss_factor) {
    Cpu cpu;
    cpu.ctx.loss_factor = loss_factor;
    MixtureConfig config = Config(2, 4);
    config.aux_loss = aux_loss;
    Mixture layer(config);
    layer.Finalize();
    Materialize(cpu.ctx, layer);
    Scatter(layer);
    Saved saved;
    layer.Forward(cpu.ctx, Random(cpu, Shape{6, 4}, 3), saved);
    std::vector<std::vector<double>> all;
    const Tensor dx = layer.Backward(cpu.ctx, Random(cpu, Shape{6, 4}, 4), saved);
    all = Gradients(layer);
    all.push_back(Values(dx));
    return all;
  };
  const auto without = gradients(0, 1), with = gradients(0.3, 1), half = gradients(0.3, 0.5);
  EXPECT_EQ(with[1], without[1]);
  EXPECT_EQ(with[2], without[2]);
  for (const size_t of : {size_t{0}, size_t{3}}) {  // the router's weight, and the input
    double most = 0;
    for (size_t i = 0; i < with[of].size(); ++i) {
      const double whole = with[of][i] - without[of][i];
      most = std::max(most, std::abs(whole));
      EXPECT_NEAR(half[of][i] - without[of][i], whole / 2, 1e-14);
    }
    EXPECT_GT(most, 1e-3);
  }
}

// By differences of the loss itself: dy = 0, so that nothing else has a gradient.
TEST(MixtureTest, TheAuxiliaryLossIsThatOfThePaper) {
  Cpu cpu;
  MixtureConfig config = Config(2, 4);
  config.aux_loss = 0.3;
  Mixture layer(config);
  layer.Finalize();
  Materialize(cpu.ctx, layer);
  Scatter(layer);
  constexpr int64_t kTokens = 6;
  const Tensor x = Random(cpu, Shape{kTokens, 4}, 3), zero = cpu.New(Shape{kTokens, 4}, DType::kF64);
  std::fill_n(zero.data<double>(), zero.numel(), 0);
  Saved saved;
  layer.Forward(cpu.ctx, x, saved);
  const Tensor dx = layer.Backward(cpu.ctx, zero, saved);
  const auto loss = [&] {
    const std::vector<double> router = Values(layer.Parameters()[0]->data()), rows = Values(x);
    double f[4] = {}, p[4] = {};
    for (size_t t = 0; t < kTokens; ++t) {
      double logits[4] = {}, sum = 0;
      for (size_t e = 0; e < 4; ++e) {
        for (size_t i = 0; i < 4; ++i) logits[e] += router[e * 4 + i] * rows[t * 4 + i];
        sum += std::exp(logits[e]);
      }
      for (size_t e = 0; e < 4; ++e) {
        p[e] += std::exp(logits[e]) / sum / kTokens;
        f[e] += std::count_if(logits, logits + 4, [&](double other) { return other > logits[e]; }) < 2
                    ? 1.0 / (2 * kTokens)
                    : 0;
      }
    }
    return 0.3 * 4 * std::inner_product(f, f + 4, p, 0.0);
  };
  ExpectGradient("router", layer.Parameters()[0]->data(), Values(layer.Parameters()[0]->gradient()), loss);
  ExpectGradient("input", x, Values(dx), loss);
}

// ---- In a Llama ----

const LlamaConfig kModel{.layers = 4,
                         .hidden = 64,
                         .heads = 4,
                         .vocab = 100,
                         .kv_heads = 2,
                         .head_dim = 24,
                         .ffn = 96,
                         .sequence = 16,
                         .experts = {.experts = 8, .top_k = 2, .capacity_factor = 1.25, .every = 2}};

// Jiang et al. 2024: 47B in all, of which a token meets 13B; as released 46,702,792,704, and 12,879,925,248 without six
// experts.
TEST(MixtralTest, PublishedParameterCountsAndNames) {
  const LlamaConfig config{.layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .vocab = 32000,
                           .kv_heads = 8,
                           .ffn = 14336,
                           .sequence = 4096,
                           .experts = {.experts = 8, .top_k = 2}};
  LlamaModel model(config);
  EXPECT_EQ(model.ParameterCount(), 46702792704);
  model.Finalize();
  std::vector<std::string> names;
  for (const Parameter* p : model.Parameters())
    if (p->name().starts_with("blocks.0.mlp")) names.push_back(p->name());
  EXPECT_THAT(names, ::testing::ElementsAre("blocks.0.mlp.router.weight", "blocks.0.mlp.experts.gate_up.weight",
                                            "blocks.0.mlp.experts.projection.weight"));
  EXPECT_EQ(model.Parameters()[5]->name(), "blocks.0.mlp.router.weight");
  EXPECT_EQ(model.Parameters()[6]->shape(), (Shape{8 * 2 * 14336, 4096}));
  EXPECT_EQ(model.Parameters()[7]->shape(), (Shape{8 * 14336, 4096}));
  // A token meets 12,879,925,248 parameters, of which neither norms nor the embedding multiply.
  const double weights = 12879925248.0 - 65 * 4096 - 32000 * 4096.0, attention = 32 * 2 * 4096 * 4096.0;
  EXPECT_EQ(ForwardFlopsByBlock(config).Sum(), 4096 * (2 * weights + attention));
}

TEST(MixtralTest, EveryOtherBlockHasExperts) {
  LlamaModel model(kModel);
  model.Finalize();
  std::vector<std::string> routers;
  for (const Parameter* p : model.Parameters())
    if (p->name().ends_with("router.weight")) routers.push_back(p->name());
  EXPECT_THAT(routers, ::testing::ElementsAre("blocks.1.mlp.router.weight", "blocks.3.mlp.router.weight"));
}

TEST(MixtralTest, FlopsAreThoseLaunched) {
  for (const double capacity_factor : {1.25, 9.0}) {
    LlamaConfig config = kModel;
    config.experts.capacity_factor = capacity_factor;
    SymbolicDevice device;
    Context ctx{.device = device, .stream = device.compute()};
    LlamaModel model(config);
    model.Finalize();
    for (Parameter* p : model.Parameters()) {
      p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
      p->set_gradient(device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
    }
    Saved saved;
    Tensor logits = model.Forward(ctx, ctx.Activation(Shape{4, 16}, DType::kI32), saved);
    model.Backward(ctx, std::move(logits), saved);
    double flops = 0;
    for (const auto& l : device.launched())
      if (l.key.name.find("matmul") != l.key.name.npos || l.key.name.starts_with("attention"))
        flops += l.cost.flops.value();
    EXPECT_EQ(flops, HardwareFlops(config, {}, 4));
    EXPECT_GT(HardwareFlops(config, {}, 4), 3 * 4 * ForwardFlopsByBlock(config).Sum());
  }
}

// A mixture keeps, of T tokens: its input (the router's), 2 E C rows of slots, what the experts keep of theirs, and of
// the router what the page says.
TEST(MixtureTest, KeepsWhatItMust) {
  constexpr int64_t kTokens = 64, kHidden = 32, kFfn = 48, kExperts = 8, kTopK = 2, kSlots = 8 * 20;
  SymbolicDevice device;
  Context ctx{.device = device, .stream = device.compute()};
  Mixture layer({.hidden = kHidden, .ffn = kFfn, .experts = kExperts, .top_k = kTopK, .dtype = DType::kBF16});
  layer.Finalize();
  for (Parameter* p : layer.Parameters()) {
    p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->set_gradient(device.NewTensor(p->shape(), DType::kF32, Category::kGradients));
  }
  Saved saved;
  Tensor y;
  {
    const Tensor x = ctx.Activation(Shape{kTokens, kHidden}, DType::kBF16);
    y = layer.Forward(ctx, x, saved);
  }
  const int64_t rows = 2 * kTokens * kHidden + 2 * kSlots * (2 * kHidden + 3 * kFfn),
                router = 4 * kTokens * (kExperts + 3 * kTopK);
  EXPECT_EQ(device.Live(Category::kActivations), Bytes(rows + router + 2 * kTokens * kHidden /* y */));
  layer.Backward(ctx, std::move(y), saved);
  EXPECT_EQ(device.Live(Category::kActivations), Bytes(0));
}

TEST(MixtralTest, InputsFirstWeightsLaterGivesTheSameBits) {
  const auto step = [](bool halves) {
    Cpu cpu;
    LlamaConfig config = kModel;
    config.dtype = DType::kF64;
    config.experts.aux_loss = 0.1;
    LlamaModel model(config);
    model.Finalize();
    Materialize(cpu.ctx, model);
    Saved saved, kept;
    const Tensor ids = RandomIds(cpu, Shape{2, 5}, 100, 20);
    SoftmaxCrossEntropy::Forward(cpu.ctx, model.Forward(cpu.ctx, ids, saved), ids, kept);
    Tensor dy = SoftmaxCrossEntropy::Backward(cpu.ctx, kept);
    if (halves) {
      model.BackwardInput(cpu.ctx, std::move(dy), saved);
      model.BackwardWeights(cpu.ctx, saved);
    } else {
      model.Backward(cpu.ctx, std::move(dy), saved);
    }
    EXPECT_TRUE(saved.empty());
    return Gradients(model);
  };
  EXPECT_EQ(step(true), step(false));
}

TEST(MixtralTest, PartsInARowAreTheWhole) {
  LlamaConfig config = kModel;
  config.dtype = DType::kF64;
  twofold::test::ExpectPartsInARowAreTheWhole<LlamaModel>(config);
}

}  // namespace mixture_test
}  // namespace twofold::nn
