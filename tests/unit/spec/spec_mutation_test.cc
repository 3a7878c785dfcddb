// Whatever a spec file holds, the answer is a valid spec or a message. Good specs are damaged at random
// (seeded) and read; a spec that is accepted must also survive being written out.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "experiments/spec/spec.h"

namespace twofold {
namespace {

std::vector<std::string> GoodSpecs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator("tests/specs/good"))
    paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Damage(std::string text) {
    for (size_t n = 1 + Below(4); n > 0; --n) Once(text);
    return text;
  }
  size_t Below(size_t n) { return random_() % n; }

 private:
  void Once(std::string& text) {
    static constexpr std::string_view kWords[] = {"{",
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
                                                  "path: \"/\"",
                                                  "name: \"..\"",
                                                  "\\x",
                                                  "[a.b/c]",
                                                  ",",
                                                  ";",
                                                  "tokens { path: \"CMakeLists.txt\" }",
                                                  "every: 2 ",
                                                  "seed: 1 "};
    const size_t at = Below(text.size() + 1), length = std::min(Below(12), text.size() - at);
    switch (Below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, kWords[Below(std::size(kWords))]);
        break;
      case 3:
        ReplaceNumber(text, at);
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(Below(256));
        break;
    }
  }
  // Another number in place of the next one: the change that most often leaves a readable spec.
  void ReplaceNumber(std::string& text, size_t from) {
    static constexpr std::string_view kNumbers[] = {"0",
                                                    "1",
                                                    "2",
                                                    "3",
                                                    "4",
                                                    "8",
                                                    "64",
                                                    "-5",
                                                    "0.5",
                                                    "1e-9",
                                                    "4096",
                                                    "4611686018427387904",
                                                    "-9223372036854775808"};
    const size_t at = text.find_first_of("0123456789", from);
    if (at == std::string::npos) return;
    const size_t end = text.find_first_not_of("0123456789.e-", at);
    text.replace(at, end == std::string::npos ? std::string::npos : end - at,
                 kNumbers[Below(std::size(kNumbers))]);
  }
  std::mt19937_64 random_;
};

TEST(SpecMutation, EveryAnswerIsAValidSpecOrAMessage) {
  const std::vector<std::string> good = GoodSpecs();
  ASSERT_FALSE(good.empty());
  Mutator mutator(20240607);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = mutator.Damage(good[static_cast<size_t>(i) % good.size()]);
    const absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "mutant.textproto");
    if (!spec.ok()) {
      ++refused;
      EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
      EXPECT_EQ(spec.status().message().find("mutant.textproto"), 0u) << spec.status() << "\n" << text;
      continue;
    }
    ++accepted;
    EXPECT_GE(WorldSize(*spec), 1);
    EXPECT_EQ(AccumulationSteps(*spec) * WorldSize(*spec) * spec->train().micro_batch(),
              spec->train().global_batch());
    const absl::StatusOr<spec::Spec> again = ResolveSpec(SpecToText(*spec), "again.textproto");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*spec, *again)) << text;
  }
  EXPECT_GT(accepted, 300) << "the mutations no longer leave readable specs";
  EXPECT_GT(refused, 300);
}

TEST(SpecMutation, EveryAssignmentIsAppliedOrRefused) {
  static constexpr std::string_view kPaths[] = {"model.preset",
                                                "model.gpt.layers",
                                                "model.mlp.hidden",
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

}  // namespace
}  // namespace twofold
