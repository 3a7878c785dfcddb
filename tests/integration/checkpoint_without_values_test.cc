// Checkpoints of devices that compute nothing: files of an emulated one, and the time that a simulated one takes for
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/safetensors.h"
#include "tests/integration/checkpoint_runs.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace checkpoint_without_values_test {

using namespace checkpoint_runs;
using test::kInMemory;
using test::Losses;
using test::RunText;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kEmulated[] = "device: EMULATED\nemulated { cluster: \"star-a100\" speed: 1e6 }\n";

// Files of an emulated device are as large as those of one that computes, and so is the memory.
TEST(Emulated, SavesAndLoadsFilesOfRealSizes) {
  for (const auto& [layout, kind] : {std::pair(kLayouts[0], kSharded), {kLayouts[3], kFull}, {kLayouts[1], kAsync}}) {
    SCOPED_TRACE(StrCat(layout.name, " ", kind));
    const std::string folder = Folder("emulated"), other = Folder("computed");
    const std::string emulated = StrCat(kInMemory, kEmulated),
                      predicted = StrCat(test::Simulated("SYMBOLIC"), kEmulated);
    const auto saved = RunText(Text(kPlainGpt, 2, layout, Saving(folder, kind), emulated));
    const auto simulated = RunText(Text(kPlainGpt, 2, layout, Saving(folder + "_none", kind), predicted));
    RunText(Text(kPlainGpt, 2, layout, Saving(other, kind)));
    ASSERT_EQ(saved[0].checkpoints_size(), 2);
    ASSERT_EQ(simulated[0].checkpoints_size(), 2);
    const auto mine = checkpoint::Open(saved[0].checkpoints(0).path()),
               full = checkpoint::Open(other + "/000001-step-3");
    ASSERT_TRUE(mine.ok() && full.ok()) << mine.status() << full.status();
    EXPECT_FALSE(mine->manifest.metadata.has_values);
    EXPECT_TRUE(full->manifest.metadata.has_values);
    const auto tensors = [](const checkpoint::Opened& of) {
      std::vector<std::pair<std::string, std::string>> all;
      for (const checkpoint::Entry& e : of.manifest.contents.tensors) all.emplace_back(e.name, e.shape.ToString());
      return all;
    };
    EXPECT_EQ(tensors(*mine), tensors(*full));
    ASSERT_EQ(mine->manifest.contents.files.size(), full->manifest.contents.files.size());
    for (size_t f = 0; f < mine->manifest.contents.files.size(); ++f) {  // they differ in what their headers say
      EXPECT_NEAR(static_cast<double>(mine->manifest.contents.files[f].bytes),
                  static_cast<double>(full->manifest.contents.files[f].bytes), 64);
      const auto head = checkpoint::ReadSafetensorsHead(StrCat(mine->path, "/", mine->manifest.contents.files[f].name));
      ASSERT_TRUE(head.ok()) << head.status();
      EXPECT_EQ(head->metadata.at("values"), "not computed");
    }
    const auto resumed = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), emulated));
    EXPECT_EQ(resumed[0].first_step(), kStop);
    const auto foretold = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), predicted));
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(simulated[r].memory().peak_bytes(), saved[r].memory().peak_bytes()) << "rank " << r;
      EXPECT_EQ(simulated[r].memory().reserved_bytes(), saved[r].memory().reserved_bytes()) << "rank " << r;
      EXPECT_EQ(foretold[r].memory().peak_bytes(), resumed[r].memory().peak_bytes()) << "rank " << r;
    }
    EXPECT_EQ(RunText(Text(kPlainGpt, 3, kLayouts[2], Resuming(folder), emulated))[0].steps_size(), kSteps - kStop);
    // Neither takes the other's files.
    const auto error = [&](const std::string& from, const std::string& fabric) {
      spec::Spec spec = test::Resolve(Text(kPlainGpt, 2, layout, Resuming(from), fabric));
      return std::string(test::RunResolved(spec).status.message());
    };
    EXPECT_THAT(error(folder, kInMemory), HasSubstr("has no values, because device: EMULATED computed none; use a "
                                                    "checkpoint of a run that computes"));
    EXPECT_THAT(error(other, emulated), HasSubstr("has values, but this run, with device: EMULATED, computes none; use "
                                                  "a checkpoint of a run with device: EMULATED"));
    fs::remove_all(folder), fs::remove_all(other);
  }
}

// Each of two ranks holds everything, and writes half of it.
TEST(Predicted, SavesAndLoadsTakeTheTimeOfTheStorage) {
  const std::string folder = Folder("predicted");
  RunText(Text(kPlainGpt, 2, kLayouts[0], Saving(folder)));
  const auto opened = checkpoint::Open(folder + "/000001-step-3");
  ASSERT_TRUE(opened.ok()) << opened.status();
  int64_t bytes = 0;
  for (const checkpoint::Entry& e : opened->manifest.contents.tensors) bytes += e.shape.numel() * ElementSize(e.dtype);
  const auto fabric = [](double write, double read) {
    return StrCat("fabric { simulated { cluster: \"star-a100\" storage { write_gbytes_per_second: ", write,
                  " read_gbytes_per_second: ", read, " } } }\n");
  };
  const auto run = [&](const std::string& kind) {
    return RunText(Text(kPlainGpt, 2, kLayouts[0], Saving(folder + "_none", kind), fabric(1e-4, 2e-4)))[0];
  };
  const report::RankRecord sync = run(kSharded), async = run(kAsync), full = run(kFull);
  ASSERT_EQ(sync.checkpoints_size(), 2);
  const double half = static_cast<double>(bytes) / 2 / 1e5;
  EXPECT_NEAR(sync.checkpoints(0).stood_still_seconds(), half, 0.01 * half);
  EXPECT_FALSE(sync.checkpoints(0).has_path());
  EXPECT_NEAR(full.checkpoints(0).stood_still_seconds(), 2 * half, 0.01 * half) << "rank 0 writes all of it";
  ASSERT_EQ(async.checkpoints_size(), 2);
  EXPECT_LT(async.checkpoints(0).stood_still_seconds(), 0.1 * half);
  EXPECT_GE(async.checkpoints(0).seconds(), half);
  const auto text = [&](double read) { return Text(kPlainGpt, 2, kLayouts[0], Resuming(folder), fabric(1, read)); };
  const auto slow = RunText(text(2e-4)), fast = RunText(text(1e6));
  EXPECT_NEAR(slow[0].trace_origin_seconds() - fast[0].trace_origin_seconds(), static_cast<double>(bytes) / 2e5,
              1e-3 * half);
  fs::remove_all(folder);
}

}  // namespace checkpoint_without_values_test
}  // namespace twofold
