// Tensor, sequence, context, expert and pipeline parallelism, each alone and together with each other and with every layout over
// replicas, hold the promises: they train like one process, a simulated run with data gives the same bits, and one without, like
// `twofold memory`, predicts memory to the byte.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/replayed.h"
#include "tests/integration/saved_parameters.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace model_parallel_test {

constexpr int kSteps = 20, kMicroBatch = 2, kGlobalBatch = 16;

enum class Kind { kGpt, kLlama, kMoe };
constexpr Kind kKinds[] = {Kind::kGpt, Kind::kLlama, Kind::kMoe};

// How a model is cut. Sizes of the models below are such that all of these divide them.
struct Layout {
  const char* name;
  int ranks;
  const char* parallel;
  int layers = 4;  // that it needs
};

constexpr Layout kAxes[] = {
    {"Dp2", 2, "dp: 2"},
    {"Dp4", 4, "dp: 4"},
    {"Tp2", 2, "tp: 2"},
    {"Tp4", 4, "tp: 4"},
    {"TpSp2", 2, "tp: 2 sequence_parallel: true"},
    {"TpSp4", 4, "tp: 4 sequence_parallel: true"},
    {"Cp2", 2, "cp: 2"},
    {"Cp4", 4, "cp: 4"},
    {"GPipe2", 2, "pp: 2 schedule: GPIPE"},
    {"GPipe4", 4, "pp: 4 schedule: GPIPE"},
    {"OneFOneB2", 2, "pp: 2"},
    {"OneFOneB4", 4, "pp: 4"},
    {"Interleaved2", 2, "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"Interleaved4", 4, "pp: 4 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 8},
    {"ZeroBubble2", 2, "pp: 2 schedule: ZERO_BUBBLE_H1"},
    {"ZeroBubble4", 4, "pp: 4 schedule: ZERO_BUBBLE_H1"}};
// Of the mixture of experts alone.
constexpr Layout kExpertAxes[] = {{"Ep2", 2, "dp: 2 ep: 2"}, {"Ep4", 4, "dp: 4 ep: 4"}};

constexpr Layout kHybrids[] = {
    {"Tp2Dp2", 4, "tp: 2 dp: 2"},
    {"Tp2Dp2Zero3", 4, "tp: 2 dp: 2 sharding: ZERO_3"},
    {"Tp2HybridShard", 8, "tp: 2 dp: 4 sharding: HYBRID_SHARD shard_group: 2"},
    {"Tp2SpZero2", 4, "tp: 2 dp: 2 sequence_parallel: true sharding: ZERO_2"},
    {"Pp2Tp2", 4, "pp: 2 tp: 2"},
    {"Pp2Dp2", 4, "pp: 2 dp: 2 bucket_mib: 0.005"},
    {"Pp2Dp2Tp2", 8, "pp: 2 dp: 2 tp: 2"},
    {"Pp2Dp2Tp2Zero1", 8, "pp: 2 dp: 2 tp: 2 sharding: ZERO_1"},
    {"Pp2Dp2Tp2Zero2", 8, "pp: 2 dp: 2 tp: 2 sharding: ZERO_2"},
    {"Pp2Dp2Tp2Zero3", 8, "pp: 2 dp: 2 tp: 2 sharding: ZERO_3"},
    {"Pp2Dp2Tp2SpZero1", 8, "pp: 2 dp: 2 tp: 2 sequence_parallel: true sharding: ZERO_1"},
    {"InterleavedTp2", 4, "pp: 2 tp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"InterleavedTp4Sp", 8, "pp: 2 tp: 4 sequence_parallel: true schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"InterleavedZero1", 4, "pp: 2 dp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2 sharding: ZERO_1"},
    {"ZeroBubbleDp2", 4, "pp: 2 dp: 2 schedule: ZERO_BUBBLE_H1"},
    {"ZeroBubbleZero1Tp2", 8, "pp: 2 dp: 2 tp: 2 schedule: ZERO_BUBBLE_H1 sharding: ZERO_1"},
    {"GPipeDp2Zero1", 8, "pp: 4 dp: 2 schedule: GPIPE sharding: ZERO_1"},
    {"Cp2Dp2", 4, "cp: 2 dp: 2"},
    {"Cp2Dp2Zero3", 4, "cp: 2 dp: 2 sharding: ZERO_3"},
    {"Cp2Tp2", 4, "cp: 2 tp: 2"},
    {"Cp2Tp2Sp", 4, "cp: 2 tp: 2 sequence_parallel: true"},
    {"Cp2Pp2", 4, "cp: 2 pp: 2"},
    {"Cp2Pp2Tp2", 8, "cp: 2 pp: 2 tp: 2"},
    {"OtherOrder", 8, "pp: 2 dp: 2 tp: 2 order: \"tp dp pp cp\""},
    {"ScatterGather", 4, "pp: 2 tp: 2 scatter_gather_messages: true"},
    {"ScatterGatherNoOverlap", 4, "pp: 2 tp: 2 scatter_gather_messages: true overlap: false"},
    {"ScatterGatherTp4", 8, "pp: 2 tp: 4 scatter_gather_messages: true schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"ScatterGatherZero1", 8, "pp: 2 dp: 2 tp: 2 scatter_gather_messages: true schedule: ZERO_BUBBLE_H1 sharding: ZERO_1"},
    {"ScatterGatherCp2", 8, "pp: 2 cp: 2 tp: 2 scatter_gather_messages: true"},
    {"ByCost", 2, "pp: 2 stage_balance: BY_COST"},
    {"ByHand", 2, "pp: 2 stage_layers: [1, 3]"}};
constexpr Layout kExpertHybrids[] = {
    {"Ep2Dp4", 4, "dp: 4 ep: 2"},
    {"Ep2Dp4Zero3", 4, "dp: 4 ep: 2 sharding: ZERO_3"},
    {"Ep2Dp4Zero1", 4, "dp: 4 ep: 2 sharding: ZERO_1"},
    {"Ep2Tp2", 4, "dp: 2 ep: 2 tp: 2"},
    {"Ep2Tp2Sp", 4, "dp: 2 ep: 2 tp: 2 sequence_parallel: true"},
    {"Ep2Pp2", 4, "dp: 2 ep: 2 pp: 2"},
    {"Ep2Pp2Tp2", 8, "dp: 2 ep: 2 pp: 2 tp: 2"},
    {"Ep2Cp2", 4, "dp: 2 ep: 2 cp: 2"}};

// What else changes numbers or memory.
struct Variant {
  const char* name = "Plain";
  const char* train = "";  // further fields of train
  bool bf16 = false;
  bool unfused = false;    // attention: scores and masks are kept; not with cp
  bool dropout = false;    // with one replica alone: micro-batches of several are other samples than those of one
};
constexpr Variant kVariants[] = {{},
                                 {"Clipped", "clip_norm: 0.5 "},
                                 {"Recomputed", "activation_checkpointing {} "},
                                 {"Selective", "activation_checkpointing { recompute: SELECTIVE } ", false, true},
                                 {"EverySecond", "activation_checkpointing { every: 2 } clip_norm: 1 "},
                                 {"Bf16", "precision { parameter: BF16 gradient: F32 reduce: F32 } ", true},
                                 {"Bf16Recomputed", "precision { parameter: BF16 gradient: F32 reduce: BF16 } clip_norm: 1 activation_checkpointing {} ", true},
                                 {"Dropout", "", false, true, true},
                                 {"DropoutRecomputed", "activation_checkpointing {} ", false, true, true}};

struct Case {
  Kind kind;
  Layout layout;
  Variant variant;
};
std::string KindName(Kind kind) { return kind == Kind::kGpt ? "Gpt" : kind == Kind::kLlama ? "Llama" : "Moe"; }
std::string Name(const Case& c) { return StrCat(KindName(c.kind), "_", c.layout.name, "_", c.variant.name); }
void PrintTo(const Case& c, std::ostream* out) { *out << Name(c); }

// Attention is unfused where masks or scores are wanted. Llama's two heads of keys and values are fewer than 4 ranks; its
// vocabulary and GPT's are divided by no number of ranks. All tokens find room with their experts: what is left out otherwise
// depends on who else is in the micro-batch.
std::string ModelText(const Case& c) {
  const std::string attention = c.variant.unfused ? " attention: UNFUSED" : "", layers = StrCat("layers: ", c.layout.layers, " hidden: 16 heads: 4 ");
  const std::string llama = StrCat(layers, "kv_heads: 2 ffn: 24 vocab: 259 sequence: 16");
  switch (c.kind) {
    case Kind::kGpt:
      return StrCat("model { gpt { ", layers, "vocab: 259 sequence: 16", c.variant.dropout ? " dropout: 0.1 attention_dropout: 0.1" : "", " }",
                    attention, " }\n");
    case Kind::kLlama:
      return StrCat("model { llama { ", llama, " }", attention, " }\n");
    case Kind::kMoe:
      return StrCat("model { moe { llama { ", llama, " } experts: 4 top_k: 2 capacity_factor: 2 every: 2 }", attention, " }\n");
  }
  return "";
}

std::string Text(const Case& c, const std::string& parallel, int steps, const std::string& train = "") {
  return StrCat(ModelText(c), "train { steps: ", steps, " micro_batch: ", kMicroBatch, " global_batch: ", kGlobalBatch, " warmup_steps: 0 ",
                c.variant.train, train, "}\nparallel { ", parallel, " }\n");
}

constexpr char kSgd[] = "optimizer { sgd { lr: 0.1 momentum: 0.9 } } ";
// An update so large that nothing of the initial parameters is left: what is saved is the gradient, times -2^40.
constexpr char kGradientsAlone[] = "optimizer { sgd { lr: 1099511627776 } } ";

testing::Parameters Trained(const Case& c, const std::string& parallel, int steps, const char* optimizer) {
  const std::string folder = testing::ScratchFolder(Name(c));
  testing::RunText(Text(c, parallel, steps, StrCat(optimizer, testing::SaveAtTheEnd(folder))) + testing::kInMemory);
  testing::Parameters parameters = testing::SavedParameters(folder);
  std::filesystem::remove_all(folder);
  return parameters;
}

// What one process makes of the same micro-batches, one after the other.
struct Alone {
  std::vector<double> losses;
  testing::Parameters gradients, parameters;
};
const Alone& OneProcess(const Case& c) {
  static std::map<std::string, Alone> known;
  auto [it, is_new] = known.try_emplace(Text(c, "", kSteps));
  if (!is_new) return it->second;
  it->second.losses = testing::Losses(testing::RunText(Text(c, "", kSteps, kSgd) + testing::kInMemory)[0]);
  if (c.variant.bf16) return it->second;
  it->second.gradients = Trained(c, "", 1, kGradientsAlone);
  it->second.parameters = Trained(c, "", kSteps, kSgd);
  return it->second;
}

class ModelParallel : public ::testing::TestWithParam<Case> {};

TEST_P(ModelParallel, KeepsThePromises) {
  const Case& c = GetParam();
  const std::string text = Text(c, c.layout.parallel, kSteps, kSgd);
  const auto in_memory = testing::RunText(text + testing::kInMemory);
  ASSERT_EQ(static_cast<int>(in_memory.size()), c.layout.ranks);
  const std::vector<double> losses = testing::Losses(in_memory[0]);

  // Trains like one process: f32 to 1e-4 over 20 steps; bf16 parameters, activations and messages to 2 %.
  const Alone& alone = OneProcess(c);
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(alone.losses.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], alone.losses[i], (c.variant.bf16 ? 2e-2 : 1e-4) * alone.losses[i]) << "step " << i;
  }
  EXPECT_LT(losses.back(), 0.97 * losses.front()) << "it learns";
  if (!c.variant.bf16) {
    testing::ExpectNear(Trained(c, c.layout.parallel, 1, kGradientsAlone), alone.gradients, 1e-5, "gradients of the first step");
    testing::ExpectNear(Trained(c, c.layout.parallel, kSteps, kSgd), alone.parameters, 1e-4, "parameters");
  }

  // The simulated fabric with data: the same bits. Without: the same bytes.
  testing::ExpectPromised(text, in_memory);
}

bool Fits(Kind kind, const Layout& layout, const Variant& variant) {
  const std::string_view parallel = layout.parallel;
  const auto has = [&](std::string_view axis) { return parallel.find(axis) != std::string_view::npos; };
  if (variant.unfused && has("cp:")) return false;
  return !variant.dropout || (kind == Kind::kGpt && !has("dp:"));
}

template <class Layouts>
void Add(std::vector<Case>& cases, Kind kind, const Layouts& layouts, const Variant& variant) {
  for (const Layout& layout : layouts) {
    if (Fits(kind, layout, variant)) cases.push_back({kind, layout, variant});
  }
}

// Every axis, for every kind of model.
std::vector<Case> Axes() {
  std::vector<Case> cases;
  for (const Kind kind : kKinds) Add(cases, kind, kAxes, kVariants[0]);
  Add(cases, Kind::kMoe, kExpertAxes, kVariants[0]);
  return cases;
}

// Every hybrid once: models by turns, and what else changes numbers or memory.
std::vector<Case> Hybrids() {
  std::vector<Case> cases;
  size_t i = 0;
  for (const Layout& layout : kHybrids) cases.push_back({kKinds[i++ % 3], layout, kVariants[0]});
  for (const Layout& layout : kExpertHybrids) cases.push_back({Kind::kMoe, layout, kVariants[0]});
  for (const Layout& layout : kHybrids) {
    const Case with{kKinds[i % 2], layout, kVariants[1 + i % 8]};
    if (Fits(with.kind, with.layout, with.variant)) cases.push_back(with);
    ++i;
  }
  return cases;
}

// Everything with everything.
std::vector<Case> All() {
  std::vector<Case> cases;
  for (const Variant& variant : kVariants) {
    for (const Kind kind : kKinds) {
      Add(cases, kind, kAxes, variant);
      Add(cases, kind, kHybrids, variant);
    }
    Add(cases, Kind::kMoe, kExpertAxes, variant);
    Add(cases, Kind::kMoe, kExpertHybrids, variant);
  }
  return cases;
}

const auto kName = [](const auto& info) { return Name(info.param); };
INSTANTIATE_TEST_SUITE_P(Axes, ModelParallel, ::testing::ValuesIn(Axes()), kName);
INSTANTIATE_TEST_SUITE_P(Hybrids, ModelParallel, ::testing::ValuesIn(Hybrids()), kName);
INSTANTIATE_TEST_SUITE_P(Full, ModelParallel, ::testing::ValuesIn(All()), kName);

}  // namespace
}  // namespace twofold
