// Runs that go on from checkpoints, against runs that never stopped; and what checkpoints hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/io/checkpoint_folder.h"
#include "core/io/safetensors.h"
#include "tests/integration/checkpoint_runs.h"
#include "tests/integration/run_spec.h"
#include "tests/seed.h"

namespace twofold {
namespace checkpoint_test {

using namespace checkpoint_runs;
using test::Losses;
using test::RunText;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

using Case = std::tuple<Layout, int, const char*>;
class Resumed : public ::testing::TestWithParam<Case> {};

TEST_P(Resumed, HasTheLossesOfARunThatNeverStopped) {
  const auto [layout, ranks, kind] = GetParam();
  if (ranks % layout.least != 0) GTEST_SKIP() << "needs groups of " << layout.least;
  const std::string folder = Folder(::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string("x"));
  fs::create_directories(folder);
  const auto whole = RunText(Text(kGpt, ranks, layout, ""));
  const auto saved = RunText(Text(kGpt, ranks, layout, Saving(folder, kind)));
  EXPECT_EQ(Losses(saved[0]), Losses(whole[0])) << "saving changes nothing";
  ASSERT_EQ(saved[0].checkpoints_size(), 2);
  EXPECT_EQ(saved[0].checkpoints(0).step(), kStop);
  EXPECT_EQ(checkpoint::List(folder).size(), 2u);
  const auto resumed = RunText(Text(kGpt, ranks, layout, Resuming(folder)));
  EXPECT_EQ(resumed[0].first_step(), kStop);
  EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
  fs::remove_all(folder);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto [layout, ranks, kind] = info.param;
  return StrCat(layout.name, ranks,
                kind == kSharded ? "Sharded"
                : kind == kFull  ? "Full"
                : kind == kAsync ? "ShardedAsync"
                                 : "FullAsync");
}
// Every layout with every kind, on 3 or 4 ranks by turns; with --full on both.
std::vector<Case> ResumedCases() {
  std::vector<Case> cases;
  int turn = 0;
  for (const Layout& layout : kLayouts) {
    for (const char* kind : {kSharded, kFull, kAsync, kFullAsync}) {
      const int chosen = layout.least > 1 ? 4 : 3 + turn++ % 2;
      for (const int ranks : {3, 4}) {
        if (Full() || ranks == chosen) cases.push_back({layout, ranks, kind});
      }
    }
    ++turn;
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Layouts, Resumed, ::testing::ValuesIn(ResumedCases()), CaseName);

// What every layout saves of the same state, here of the initial values, is the same.
TEST(Checkpoints, AFullOneIsTheSameBytesWhateverWroteIt) {
  std::string first;
  for (const Layout& layout : kLayouts) {
    const std::string folder = Folder("bytes");
    const int ranks = 2;
    RunText(Text(kPlainGpt, ranks, layout, StrCat("optimizer { sgd { lr: 1e-300 } } ", Saving(folder, kFull))));
    const std::string path = checkpoint::List(folder).back().path + "/model.safetensors";
    const auto head = checkpoint::ReadSafetensorsHead(path);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_FALSE(fs::exists(checkpoint::List(folder).back().path + "/optimizer.safetensors"))
        << "plain SGD has no state";
    std::string bytes;
    std::ifstream in(path, std::ios::binary);
    for (const auto& [name, tensor] : head->tensors) {
      std::string part(static_cast<size_t>(tensor.bytes()), '\0');
      in.seekg(tensor.begin).read(part.data(), tensor.bytes());
      bytes += StrCat(name, tensor.shape.ToString()) + part;
    }
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << layout.name;
    fs::remove_all(folder);
  }
  EXPECT_THAT(first, HasSubstr("blocks.1"));
}

TEST(Checkpoints, GoOnInOtherElementTypes) {
  const std::string folder = Folder("types"), other = Folder("types_back");
  const std::string bf16 = "precision { parameter: BF16 } ";
  const auto f32 = Losses(RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(folder)))[0]);
  const auto narrow = RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(bf16, Resuming(folder))));
  for (int i = 0; i < kSteps - kStop; ++i)
    EXPECT_NEAR(Losses(narrow[0])[static_cast<size_t>(i)], f32[static_cast<size_t>(kStop + i)], 0.02);
  EXPECT_THAT(narrow[0].notes(), ::testing::Contains(HasSubstr("parameters in f32, this run has them in bf16")));
  // And back: the masters, not their rounded images, are what an f32 run goes on with.
  RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(bf16, Saving(other))));
  EXPECT_EQ(Losses(RunText(Text(kPlainGpt, 2, kLayouts[0], Resuming(other)))[0]).size(),
            static_cast<size_t>(kSteps - kStop));
  fs::remove_all(folder), fs::remove_all(other);
}

// Running statistics are averaged and saved; early stopping goes on counting.
TEST(Checkpoints, KeepBuffersAndPatience) {
  const std::string model = test::kTinyCnns[0].model;
  const std::string validated = "validation { every_steps: 1 samples: 24 patience: 40 } ";
  for (const Layout& layout : {kLayouts[0], kLayouts[3]}) {
    const std::string folder = Folder("buffers");
    const auto whole = RunText(Text(model, 2, layout, StrCat(validated, Saving(folder))));
    const auto resumed = RunText(Text(model, 2, layout, StrCat(validated, Resuming(folder))));
    EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
    ASSERT_EQ(resumed[0].validations_size(), kSteps - kStop);
    for (int i = 0; i < kSteps - kStop; ++i)
      EXPECT_EQ(resumed[0].validations(i).loss(), whole[0].validations(kStop + i).loss());
    const auto opened = checkpoint::Open(folder);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->manifest.metadata.scalars.count("validation.in_vain"), 1u);
    EXPECT_LE(opened->manifest.metadata.scalars.at("validation.best"), whole[0].validations(0).loss());
    fs::remove_all(folder);
  }
}

// Of the last checkpoint.
std::map<std::string, double> ScalarsIn(const std::string& folder) {
  const auto opened = checkpoint::Open(folder);
  return opened.ok() ? opened->manifest.metadata.scalars : std::map<std::string, double>();
}

// It doubles after four good steps: of the fourth, three were done before.
TEST(Checkpoints, KeepTheLossScale) {
  const std::string folder = Folder("scale"), other = Folder("scale_resumed");
  const std::string half = "precision { parameter: F16 loss_scale { dynamic { initial: 1024 growth_interval: 4 } } } ";
  const auto whole = RunText(Text(kGpt, 2, kLayouts[3], StrCat(half, Saving(folder))));
  const auto resumed = RunText(Text(kGpt, 2, kLayouts[3], StrCat(half, Resuming(folder), " ", Saving(other))));
  EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
  EXPECT_EQ(ScalarsIn(other), ScalarsIn(folder));
  EXPECT_EQ(ScalarsIn(other)["loss_scale.scale"], 2048);
  fs::remove_all(folder), fs::remove_all(other);
}

// No validation after the first is better by 100: four in vain end the run after step 5, two of them before the
// checkpoint.
TEST(Checkpoints, KeepCountOfValidationsInVain) {
  const std::string folder = Folder("in_vain");
  const std::string validated = "validation { every_steps: 1 samples: 24 patience: 4 min_delta: 100 } ";
  const auto whole = RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(validated, Saving(folder))));
  EXPECT_EQ(whole[0].steps_size(), 5);
  EXPECT_EQ(RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(validated, Resuming(folder))))[0].steps_size(), 5 - kStop);
  fs::remove_all(folder);
}

TEST(Checkpoints, AreBitEqualOnTheSimulatedFabricAndCostItTheSameMemory) {
  for (const Layout& layout : kLayouts) {
    for (const char* kind : {layout.name == std::string("Zero2") ? kFullAsync : kSharded, kFull}) {
      const std::string folder = Folder("simulated"), other = Folder("measured");
      const auto real = RunText(Text(kPlainGpt, 2, layout, Saving(folder, kind), test::Simulated("REAL")));
      const auto measured = RunText(Text(kPlainGpt, 2, layout, Saving(other, kind)));
      const auto symbolic =
          RunText(Text(kPlainGpt, 2, layout, Saving(folder + "_none", kind), test::Simulated("SYMBOLIC")));
      EXPECT_EQ(Losses(real[0]), Losses(measured[0]));
      EXPECT_FALSE(fs::exists(folder + "_none"));
      EXPECT_THAT(symbolic[0].notes(), ::testing::Contains(HasSubstr("no checkpoint was written")));
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(symbolic[r].memory().peak_bytes(), measured[r].memory().peak_bytes())
            << layout.name << " " << kind << " rank " << r;
        EXPECT_EQ(symbolic[r].memory().reserved_bytes(), measured[r].memory().reserved_bytes())
            << layout.name << " " << kind;
        EXPECT_EQ(real[r].memory().peak_bytes(), measured[r].memory().peak_bytes()) << layout.name << " " << kind;
      }
      const auto resumed = RunText(Text(kPlainGpt, 2, layout, Resuming(folder)));
      EXPECT_EQ(Losses(resumed[0]), Tail(Losses(real[0])));
      const auto predicted = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), test::Simulated("SYMBOLIC")));
      EXPECT_EQ(predicted[0].steps_size(), kSteps - kStop);
      for (size_t r = 0; r < 2; ++r) {  // what rank 0 tells the others of the checkpoint, too
        EXPECT_EQ(predicted[r].memory().peak_bytes(), resumed[r].memory().peak_bytes())
            << layout.name << " " << kind << " rank " << r;
        EXPECT_EQ(predicted[r].memory().reserved_bytes(), resumed[r].memory().reserved_bytes())
            << layout.name << " " << kind << " rank " << r;
      }
      fs::remove_all(folder), fs::remove_all(other);
    }
  }
}

}  // namespace checkpoint_test
}  // namespace twofold
