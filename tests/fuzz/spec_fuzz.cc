// Whatever a spec file holds, the answer is a valid spec or a message. Good specs are damaged at random
// (seeded, Mutants() times) and read; a spec that is accepted must also survive being written out.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace spec_fuzz {

std::vector<std::string> GoodSpecs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator("tests/specs/good")) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

constexpr std::string_view kWords[] = {"{",
                                       "}",
                                       "<",
                                       ">",
                                       "[",
                                       "]",
                                       ":",
                                       "-",
                                       "\"",
                                       "'",
                                       "#",
                                       "model",
                                       "gpt {",
                                       "mlp {",
                                       "llama {",
                                       "train {",
                                       "steps:",
                                       "nan",
                                       "inf",
                                       "-1",
                                       "0",
                                       "1e308",
                                       "9223372036854775807",
                                       "18446744073709551616",
                                       "true",
                                       "REAL",
                                       "dp: 3 ",
                                       "heads: 7 ",
                                       "preset: \"gpt-3m\"",
                                       "preset: \"llama3-8b\"",
                                       "hf_config: \"tests/data/hf/gpt2.json\"",
                                       "hf_config: \"/\"",
                                       "attention: UNFUSED ",
                                       "dropout_masks: STORED ",
                                       "kv_heads: 2 ",
                                       "cnn {",
                                       "widths: [4, 8] ",
                                       "blocks: 1 ",
                                       "stem: IMAGENET ",
                                       "cifar10 { path: \"tests\" }",
                                       "rope_scaling { linear { factor: 2 } } ",
                                       "path: \"/\"",
                                       "name: \"..\"",
                                       "\\x",
                                       "[a.b/c]",
                                       ",",
                                       ";",
                                       "tokens { path: \"CMakeLists.txt\" }",
                                       "every: 2 ",
                                       "seed: 1 "};

// The most bytes that reading may hold at once. A config.json that the spec names is a few thousand bytes. To check
// parallel.wrap, modules are made without storage: about 11 KiB for each layer that the text states (at most 4096).
int64_t MostBytes(const std::string& text) {
  static const std::regex kLayers("layers: *(\\d{1,4})\\b");
  int64_t layers = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), kLayers), end; it != end; ++it)
    layers = std::max<int64_t>(layers, std::stoll((*it)[1]));
  return 262144 + 64 * static_cast<int64_t>(text.size()) + 16384 * layers;
}

int64_t BytesToRead(const std::string& text) {
  const test::Allocations allocations;
  EXPECT_TRUE(ResolveSpec(text, "layers.textproto").ok()) << text;
  return allocations.peak();
}

// What --full found as a mutant with 64 layers, which took more than any spec was thought to take.
TEST(SpecFuzz, ModulesTakeMemoryForEachLayer) {
  const auto text = [](int layers) {
    return StrCat("model { gpt { layers: ", layers, " hidden: 64 heads: 4 sequence: 32 } }\n",
                  "parallel { dp: 8 sharding: ZERO_3 wrap { paths { path: \"blocks.1\" } } }");
  };
  for (const int layers : {64, 1024}) EXPECT_LE(BytesToRead(text(layers)), MostBytes(text(layers))) << layers;
}

TEST(SpecFuzz, EveryAnswerIsAValidSpecOrAMessage) {
  const std::vector<std::string> good = GoodSpecs();
  ASSERT_FALSE(good.empty());
  test::Mutator mutator(TestSeed(), {.words = kWords});
  int accepted = 0, refused = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const std::string text = mutator.Damage(good[static_cast<size_t>(i) % good.size()]);
    const test::Allocations allocations;
    const absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "mutant.textproto");
    ASSERT_LE(allocations.peak(), MostBytes(text)) << text;
    if (!spec.ok()) {
      ++refused;
      EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
      EXPECT_EQ(spec.status().message().find("mutant.textproto"), 0u) << spec.status() << "\n" << text;
      continue;
    }
    ++accepted;
    EXPECT_GE(WorldSize(*spec), 1);
    EXPECT_EQ(AccumulationSteps(*spec) * spec->parallel().dp() * spec->train().micro_batch(),
              spec->train().global_batch())
        << text;
    const absl::StatusOr<spec::Spec> again = ResolveSpec(SpecToText(*spec), "again.textproto");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*spec, *again)) << text;
  }
  EXPECT_GT(accepted, Mutants() / 20) << "the mutations no longer leave readable specs";
  EXPECT_GT(refused, Mutants() / 20);
}

TEST(SpecFuzz, EveryAssignmentIsAppliedOrRefused) {
  static constexpr std::string_view kPaths[] = {"model.preset",
                                                "model.gpt.layers",
                                                "model.mlp.hidden",
                                                "model.hf_config",
                                                "model.llama.rope_scaling.llama3.factor",
                                                "model.attention",
                                                "train",
                                                "train.steps",
                                                "train.optimizer.adam.lr",
                                                "fabric.simulated.data",
                                                "fabric.mpi",
                                                "parallel.dp",
                                                "data.tokens.path",
                                                "",
                                                ".",
                                                "train.",
                                                "trace.enabled",
                                                "device",
                                                "train.seed"};
  static constexpr std::string_view kValues[] = {"",
                                                 "0",
                                                 "1",
                                                 "-1",
                                                 "nan",
                                                 "1e400",
                                                 "{}",
                                                 "{",
                                                 "{ steps: 3 }",
                                                 "REAL",
                                                 "CPU",
                                                 "a,b",
                                                 "1,2,3",
                                                 ",",
                                                 "true",
                                                 "gpt-3m",
                                                 "99999999999999999999",
                                                 "{{}}"};
  int applied = 0, refused = 0;
  for (std::string_view path : kPaths) {
    for (std::string_view value : kValues) {
      spec::Spec spec;
      const std::string assignment = std::string(path) + "=" + std::string(value);
      const absl::Status status = ApplySet(spec, assignment);
      if (status.ok()) {
        ++applied;
        continue;
      }
      ++refused;
      EXPECT_EQ(status.message().find("--set " + assignment), 0u) << status;
    }
  }
  EXPECT_GT(applied, 30);
  EXPECT_GT(refused, 100);
}

}  // namespace spec_fuzz
}  // namespace twofold
