// Many damaged config.json files: each becomes a model or a message, with little memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "experiments/program/spec/hf/hf_config.h"
#include "experiments/program/spec/spec.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace hf_config_fuzz {

constexpr std::string_view kWords[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       ",",
                                       "\"",
                                       "\\",
                                       "\\u0000",
                                       "\\ud800",
                                       "null",
                                       "true",
                                       "false",
                                       "NaN",
                                       "-",
                                       "1e999",
                                       "[[[[[[[[",
                                       "{\"a\":",
                                       "\"model_type\": \"llama\",",
                                       "\"model_type\": \"gpt2\",",
                                       "\"rope_scaling\": {\"rope_type\": \"llama3\"},",
                                       "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2},",
                                       "\"sliding_window\": 1,",
                                       "\"head_dim\": 64,",
                                       "\"n_inner\": 7,",
                                       "\"architectures\": [],",
                                       "\"pad_token_id\": 0,",
                                       "\xff\xfe",
                                       "/* */"};

std::vector<std::string> GoodConfigs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator("tests/data/hf")) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

TEST(HfConfigFuzz, EveryAnswerIsAModelOrAMessage) {
  const std::vector<std::string> good = GoodConfigs();
  ASSERT_GE(good.size(), 10u);
  test::Mutator mutator(TestSeed(), {.words = kWords});
  int accepted = 0, valid = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const std::string text = mutator.Damage(good[static_cast<size_t>(i) % good.size()]);
    const auto attention = i % 2 == 0 ? spec::Model::TILED : spec::Model::UNFUSED;
    const auto size = static_cast<int64_t>(text.size());
    const test::Allocations allocations;
    const absl::StatusOr<spec::Model> model = ReadHfConfig(text, "c.json", attention);
    ASSERT_LE(allocations.largest(), 8192 + 8 * size) << text;
    ASSERT_LE(allocations.peak(), 65536 + 64 * size) << text;
    if (!model.ok()) {
      ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
      ASSERT_EQ(model.status().message().find("c.json: "), 0u) << model.status() << "\n" << text;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(model->has_gpt() || model->has_llama()) << text;
    spec::Spec spec;
    *spec.mutable_model() = *model;
    FillDefaults(spec, "c");
    const absl::Status status = Validate(spec, "c");  // heads that divide nothing are found here
    valid += status.ok();
    ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_GT(accepted, Mutants() / 50) << "the mutations no longer leave readable files";
  EXPECT_LT(accepted, Mutants() / 2);
  EXPECT_GT(valid, accepted / 2);
}

// What a text of one kind of bracket may cost grows with its length alone, and depth overflows no stack.
TEST(HfConfigFuzz, DeepNestingIsRefused) {
  for (const std::string bracket : {"[", "{\"a\":", "[{\"a\":["}) {
    std::string text = "{\"model_type\": ";
    while (text.size() < 500000) text += bracket;
    const test::Allocations allocations;
    EXPECT_FALSE(ReadHfConfig(text, "c.json", spec::Model::TILED).ok());
    EXPECT_LE(allocations.peak(), 128 * static_cast<int64_t>(text.size()));
  }
}

}  // namespace hf_config_fuzz
}  // namespace twofold
