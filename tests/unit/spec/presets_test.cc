// Models by name: presets and their published configurations; and the largest sizes that are accepted.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/spec/presets.h"
#include "strategies/from_spec.h"
#include "tests/unit/spec/resolved.h"

namespace twofold {
namespace presets_test {

using resolved::Refused;
using resolved::Resolved;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Presets, AreValidModelsWithDistinctNames) {
  std::set<std::string_view> names;
  for (const ModelPreset& preset : ModelPresets()) {
    Resolved("model { preset: \"" + std::string(preset.name) + "\" }");
    names.insert(preset.name);
  }
  EXPECT_EQ(names.size(), ModelPresets().size());
}

// But for dropout, which presets leave out, and the longest sequence, which is the preset's choice.
TEST(Presets, AreThePublishedConfigs) {
  const std::pair<const char*, const char*> published[] = {{"gpt2-124m", "gpt2"},
                                                           {"gpt2-350m", "gpt2-medium"},
                                                           {"gpt2-774m", "gpt2-large"},
                                                           {"gpt2-1.5b", "gpt2-xl"},
                                                           {"llama-30b", "llama-30b"},
                                                           {"llama2-7b", "llama-2-7b"},
                                                           {"llama2-13b", "llama-2-13b"},
                                                           {"llama2-70b", "llama-2-70b"},
                                                           {"llama3-8b", "llama-3-8b"},
                                                           {"llama3-70b", "llama-3-70b"},
                                                           {"llama3-405b", "llama-3.1-405b"},
                                                           {"llama3.2-1b", "llama-3.2-1b"},
                                                           {"mistral-7b", "mistral-7b-v0.1"}};
  for (const auto& [name, file] : published) {
    spec::Model preset = Resolved(std::string("model { preset: \"") + name + "\" }").model(),
                config = Resolved(std::string("model { hf_config: \"tests/data/hf/") + file + ".json\" }").model();
    preset.clear_preset();
    if (config.has_gpt()) config.mutable_gpt()->clear_dropout();
    if (config.has_llama()) config.mutable_llama()->set_sequence(preset.llama().sequence());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(preset, config))
        << name << "\n"
        << preset.DebugString() << config.DebugString();
  }
}

// ---- The largest sizes that are accepted ----
// Counts of parameters and FLOPs are right for them: as double arithmetic, which does not wrap, has them.
TEST(LargestModels, AreCountedWithoutOverflow) {
  const double layers = 1 << 12, h = 1 << 18, ffn = 1 << 20, vocab = 1 << 22, wide = 1 << 14;
  std::string widths, blocks, hidden;
  for (int i = 0; i < 16; ++i) widths += "widths: 16384 ", blocks += "blocks: 1024 ", hidden += "hidden: 1048576 ";
  const std::pair<std::string, double> largest[] = {
      {"gpt { layers: 4096 hidden: 262144 heads: 4096 vocab: 4194304 sequence: 1048576 ffn: 1048576 tied_embeddings: "
       "false }",
       layers * (4 * h * h + 2 * h * ffn) + 2 * vocab * h + (1 << 20) * h},
      {"llama { layers: 4096 hidden: 262144 heads: 4096 vocab: 4194304 sequence: 1048576 ffn: 1048576 }",
       layers * (4 * h * h + 3 * h * ffn) + 2 * vocab * h},
      {"mlp { inputs: 1048576 classes: 1048576 " + hidden + "}", 17 * ffn * ffn},
      {"cnn { channels: 1024 height: 8192 width: 8192 classes: 1048576 " + widths + blocks + "}",
       16 * 1024 * 2 * 9 * wide * wide + 15 * wide * wide + wide * (1 << 20)}};
  for (const auto& [model, parameters] : largest) {
    // Of images and features made-up ones would be refused as too large; here no file is read.
    const bool words = model.starts_with("gpt") || model.starts_with("llama");
    const std::string data = words ? "" : "data { idx { images: \"README.md\" labels: \"README.md\" } }";
    const spec::Spec spec = Resolved("model { " + model + " } " + data);
    const auto count = static_cast<double>(ParameterCount(*ModelOf(spec.model())));
    EXPECT_NEAR(count, parameters, 1e-4 * parameters) << model;
    EXPECT_GT(ModelOf(spec.model())->TrainingFlops(1 << 16), 6.0 * (1 << 16) * parameters * 0.9) << model;
  }
}

TEST(LargestModels, OneMoreIsRefused) {
  struct Case {
    const char* preset;
    std::vector<std::string> sets;
    const char* fragment;
  };
  const Case cases[] = {
      {"gpt-3m", {"gpt.layers=4097"}, "model.gpt.layers: 4097 is out of range"},
      {"gpt-3m", {"gpt.hidden=262145"}, "model.gpt.hidden: 262145 is out of range"},
      {"gpt-3m", {"gpt.vocab=9223372036854775807"}, "model.gpt.vocab: 9223372036854775807 is out of range"},
      {"llama-3m", {"llama.ffn=1048577"}, "model.llama.ffn: 1048577 is out of range"},
      {"llama-3m",
       {"llama.heads=4096", "llama.head_dim=66"},
       "model.llama.head_dim: 66 times model.llama.heads = 4096"},
      {"llama-3m",
       {"llama.head_dim=-9223372036854775808"},
       "model.llama.head_dim: -9223372036854775808 is out of range"},
      {"llama-3m", {"llama.kv_heads=0"}, "model.llama.kv_heads: 0 is out of range"},
      {"cnn-small",
       {"cnn.height=9223372036854775807", "cnn.width=9223372036854775807"},
       "model.cnn.height: 9223372036854775807"},
      {"cnn-small", {"cnn.widths=16385", "cnn.blocks=1"}, "model.cnn.widths[0]: 16385"},
      {"mlp-small", {"mlp.hidden=-1"}, "model.mlp.hidden[0]: -1"}};
  for (const Case& c : cases) {
    std::vector<std::string> sets;
    for (const std::string& set : c.sets) sets.push_back("model." + set);
    EXPECT_THAT(Refused(std::string("model { preset: \"") + c.preset + "\" }", "", sets), HasSubstr(c.fragment));
  }
}

TEST(Presets, ExplicitSizesWin) {
  const spec::Spec gpt = Resolved("model { preset: \"gpt2-124m\" gpt { layers: 2 } }");
  EXPECT_EQ(gpt.model().gpt().layers(), 2);
  EXPECT_EQ(gpt.model().gpt().hidden(), 768);
  EXPECT_EQ(gpt.model().gpt().vocab(), 50257);
  EXPECT_EQ(gpt.model().preset(), "gpt2-124m");
  EXPECT_THAT(Resolved("model { preset: \"mlp-small\" mlp { hidden: 7 } }").model().mlp().hidden(), ElementsAre(7));
}

}  // namespace presets_test
}  // namespace twofold
