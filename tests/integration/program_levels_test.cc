// The levels of CPU kernels (kernels/cpu/levels.h) as the whole program uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_levels_test {

using ::testing::HasSubstr;

class Levels : public Program {
 protected:
  ~Levels() override { unsetenv("TWOFOLD_CPU_LEVEL"); }

  // Those that this build and this machine have; empty if it was built for one processor.
  std::vector<std::string> Usable() {
    EXPECT_EQ(Run("--version"), 0) << err_;
    std::vector<std::string> usable;
    for (const char* level : {"v2", "v3", "v4"}) {
      if (out_.find(StrCat("CPU kernels: x86-64-", level)) == std::string::npos) {
        usable.push_back(level);
        continue;
      }
      usable.push_back(level);
      return usable;
    }
    return {};
  }

  std::vector<double> LossesAt(const std::string& level, const std::string& spec) {
    setenv("TWOFOLD_CPU_LEVEL", level.c_str(), 1);
    EXPECT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At(level))), 0) << err_;
    std::vector<double> losses;
    const nlohmann::json report = Report(At(level));
    for (const auto& step : report["steps"]) losses.push_back(step["loss"].get<double>());
    return losses;
  }
};

constexpr char kTrain[] = "train { steps: 4 global_batch: 8 micro_batch: 2 optimizer { adamw { lr: 3e-3 } } ";
const std::map<std::string, std::string> kSpecs = {
    {"gpt", StrCat("model { gpt { layers: 2 hidden: 48 heads: 3 vocab: 256 sequence: 33 } } ", kTrain, "}")},
    {"llama bf16",
     StrCat("model { llama { layers: 2 hidden: 48 heads: 4 kv_heads: 2 ffn: 80 vocab: 256 sequence: 33 } } ", kTrain,
            "precision { parameter: BF16 } }")},
    {"cnn f16", StrCat("model { cnn { height: 12 width: 12 classes: 5 widths: [16, 32] blocks: [1, 1] } } ", kTrain,
                       "precision { parameter: F16 } }")},
};

// v3 and v4 differ in the width of their registers alone; v2 has no fused multiply-adds.
TEST_F(Levels, TrainTheSame) {
  const std::vector<std::string> usable = Usable();
  if (usable.size() < 2) GTEST_SKIP() << "this build, or this processor, has one level";
  for (const auto& [name, text] : kSpecs) {
    const std::string spec = Write("spec.textproto", StrCat(text, " parallel { dp: 2 }"));
    std::map<std::string, std::vector<double>> losses;
    for (const std::string& level : usable) losses[level] = LossesAt(level, spec);
    ASSERT_EQ(losses["v2"].size(), 4u) << name;
    EXPECT_LT(std::ranges::min(losses["v2"]), losses["v2"].front()) << name << " learns nothing";
    if (usable.size() == 3) {
      EXPECT_EQ(losses["v3"], losses["v4"]) << name;
    }
    for (size_t i = 0; i < 4; ++i) {
      const double v2 = losses["v2"][i], v3 = losses["v3"][i];
      EXPECT_NEAR(v2, v3, (name == "gpt" ? 1e-4 : 0.02) * std::abs(v3)) << name << ", step " << i + 1;
    }
  }
}

TEST_F(Levels, AWrongOneIsRefusedBeforeAnythingRuns) {
  setenv("TWOFOLD_CPU_LEVEL", "avx2", 1);
  EXPECT_EQ(Run("list models"), 2);
  EXPECT_THAT(err_, HasSubstr("TWOFOLD_CPU_LEVEL: unknown level \"avx2\"; this build has "));
}

}  // namespace program_levels_test
}  // namespace twofold
