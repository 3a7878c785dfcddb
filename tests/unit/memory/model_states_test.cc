#include "experiments/program/memory/model_states.h"

#include <gtest/gtest.h>

#include "experiments/program/memory/activations.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace model_states_test {

// As the defaults leave it, without data files.
spec::Spec SpecOf(spec::DType parameter, spec::Parallel::Sharding sharding, int64_t dp) {
  spec::Spec spec;
  *spec.mutable_model()->mutable_gpt() = [] {
    spec::Gpt gpt;
    gpt.set_layers(2), gpt.set_hidden(64), gpt.set_heads(4), gpt.set_sequence(32);
    return gpt;
  }();
  spec.mutable_train()->mutable_precision()->set_parameter(parameter);
  spec.mutable_parallel()->set_sharding(sharding);
  spec.mutable_parallel()->set_dp(dp);
  FillDefaults(spec, "test.textproto");
  return spec;
}

double Total(const std::vector<StateFormula>& states, int64_t psi) {
  double total = 0;
  for (const StateFormula& s : states) total += s.bytes(psi);
  return total;
}

// Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 ranks, K = 12.
TEST(ModelStates, AreThoseOfTheZeroPaper) {
  constexpr int64_t kPsi = 7'500'000'000;
  const auto gigabytes = [](spec::Parallel::Sharding sharding) {
    return Total(ModelStateFormulas(SpecOf(spec::BF16, sharding, 64)), kPsi) / 1e9;
  };
  EXPECT_NEAR(gigabytes(spec::Parallel::NO_SHARD), 120, 0.5);
  EXPECT_NEAR(gigabytes(spec::Parallel::ZERO_1), 31.4, 0.05);
  EXPECT_NEAR(gigabytes(spec::Parallel::ZERO_2), 16.6, 0.05);
  EXPECT_NEAR(gigabytes(spec::Parallel::ZERO_3), 1.9, 0.05);
}

TEST(ModelStates, FollowTypesAndOptimizer) {
  spec::Spec spec = SpecOf(spec::BF16, spec::Parallel::ZERO_1, 8);
  std::vector<StateFormula> states = ModelStateFormulas(spec);
  EXPECT_EQ(states[0].ToString(), "2 psi");
  EXPECT_EQ(states[0].what, "parameters, BF16");
  EXPECT_EQ(states[2].ToString(), "12 psi / 8");
  EXPECT_EQ(states[2].what, "optimizer state, exp_avg F32, exp_avg_sq F32, master F32");
  spec.mutable_train()->mutable_precision()->set_stochastic_rounding(true);
  EXPECT_EQ(ModelStateFormulas(spec)[2].what, "optimizer state, exp_avg F32, exp_avg_sq F32");
  spec.mutable_train()->mutable_precision()->set_gradient(spec::F32);
  EXPECT_EQ(ModelStateFormulas(spec)[1].bytes_per_parameter, 4);
  spec = SpecOf(spec::F32, spec::Parallel::NO_SHARD, 8);
  EXPECT_EQ(ModelStateFormulas(spec)[2].ToString(), "8 psi");
  spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1);
  EXPECT_EQ(ModelStateFormulas(spec)[2].what, "optimizer state, none");
  spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  EXPECT_EQ(ModelStateFormulas(spec)[2].what, "optimizer state, momentum_buffer F32");
  spec = SpecOf(spec::BF16, spec::Parallel::ZERO_1, 8);
  spec.mutable_parallel()->set_islands(2);
  spec.mutable_train()->mutable_local_update()->mutable_diloco();
  states = ModelStateFormulas(spec);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[2].ToString(), "20 psi / 4");
  EXPECT_EQ(states[2].what,
            "optimizer state, exp_avg F32, exp_avg_sq F32, master F32, outer parameter F32, outer momentum F32");
  spec = SpecOf(spec::F32, spec::Parallel::HYBRID_SHARD, 8);
  spec.mutable_parallel()->set_shard_group(4);
  EXPECT_EQ(ModelStateFormulas(spec)[0].ToString(), "4 psi / 4");
  spec = SpecOf(spec::BF16, spec::Parallel::FULL_SHARD, 64);
  spec.mutable_parallel()->mutable_zero_plus_plus()->set_secondary_shard(8);
  EXPECT_EQ(ModelStateFormulas(spec)[0].ToString(), "2 psi / 64 + 2 psi / 8");
  EXPECT_DOUBLE_EQ(ModelStateFormulas(spec)[0].bytes(640), 20 + 160);
}

int64_t BytesOf(const std::vector<LayerActivations>& layers, std::string_view kind) {
  for (const LayerActivations& row : layers) {
    if (row.kind == kind) return row.bytes;
  }
  return 0;
}

// Each layer keeps its input (of s b h elements); a block has two norms, an attention and an MLP.
TEST(ActivationsByLayer, AreWhatLayersKeep) {
  spec::Spec spec = SpecOf(spec::F32, spec::Parallel::NO_SHARD, 1);
  spec.mutable_train()->set_micro_batch(4);
  const std::vector<LayerActivations> layers = ActivationsByLayer(spec, {});
  int64_t total = 0;
  for (const LayerActivations& row : layers) total += row.bytes;
  const int64_t sbh = 32 * 4 * 64, vocab = 256;
  EXPECT_EQ(BytesOf(layers, "logits"), 4 * 32 * 4 * vocab);
  EXPECT_EQ(BytesOf(layers, "gelu"), 2 * 4 * 4 * sbh);  // of two blocks, its input of 4 h
  EXPECT_GT(total, 2 * 4 * 10 * sbh);
  spec.mutable_train()->set_micro_batch(8);
  EXPECT_EQ(BytesOf(ActivationsByLayer(spec, {}), "gelu"), 2 * BytesOf(layers, "gelu"));
}

TEST(KorthikantiFormula, IsEquationTwo) {
  spec::Spec spec = SpecOf(spec::F16, spec::Parallel::NO_SHARD, 1);
  const auto formula = KorthikantiFormula(spec);
  ASSERT_TRUE(formula);
  EXPECT_DOUBLE_EQ(formula->bytes, 2 * 32.0 * 64 * (34 + 5 * 4 * 32.0 / 64));
  EXPECT_EQ(formula->differs.size(), 3u);  // tiled, no dropout, what it leaves out
  spec.mutable_train()->mutable_activation_checkpointing()->set_every(1);
  EXPECT_DOUBLE_EQ(KorthikantiFormula(spec)->bytes, 2 * 32.0 * 64 * 2);
  spec.mutable_model()->mutable_mlp();
  EXPECT_FALSE(KorthikantiFormula(spec));
}

}  // namespace model_states_test
}  // namespace twofold
