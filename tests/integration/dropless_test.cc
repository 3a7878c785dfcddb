// Experts without capacities, from specs: losses of one process, bits of the simulation with data, bytes of the one
// without where the counts are given, and counts that travel from a run to a prediction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "experiments/program/report/tables.h"
#include "tests/integration/replayed.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace dropless_test {

std::string Model(std::string_view more = "") {
  return StrCat("model { moe { llama { layers: 4 hidden: 16 heads: 4 ffn: 24 vocab: 259 sequence: 16 } experts: 8 ",
                "top_k: 2 every: 2 dropless: true ", more, " } }\n");
}
std::string Train(int steps) {
  return StrCat("train { steps: ", steps, " warmup_steps: 0 micro_batch: 2 global_batch: 8 }\n");
}

constexpr const char* kMeshes[] = {"dp: 4 ep: 4", "dp: 4 ep: 2 sharding: ZERO_3", "dp: 2 ep: 2 tp: 2 pp: 2",
                                   "dp: 2 ep: 2 cp: 2 sharding: ZERO_1"};

TEST(Dropless, TrainsAsOneProcessAndItsSimulationGivesTheBits) {
  const std::vector<double> want = test::Losses(test::RunText(Model() + Train(6) + test::kInMemory)[0]);
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const std::string text = StrCat(Model(), Train(6), "parallel { ", mesh, " }\n");
    const auto measured = test::RunText(text + test::kInMemory);
    const std::vector<double> got = test::Losses(measured[0]);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << "step " << i;
    test::ExpectAsPredicted(measured, test::RunText(text + test::Simulated("REAL")));
  }
}

// One step of one micro-batch, so that the counts that were written are those of the only forward pass.
TEST(Dropless, TheSameCountsNeedTheSameBytes) {
  const std::string folder = test::ScratchFolder("dropless"), csv = folder + "/routing.csv";
  std::filesystem::create_directories(folder);
  for (const char* mesh : {"dp: 4 ep: 4", "dp: 4 ep: 2 sharding: ZERO_3"}) {
    SCOPED_TRACE(mesh);
    const std::string rest = StrCat(Train(1), "parallel { ", mesh, " }\n");
    const auto measured = test::RunText(Model() + rest + test::kInMemory);
    std::ofstream(csv) << RoutingCsv(RankRecords(measured));
    const std::string text =
        Model(StrCat("routing { counts { file: \"", csv, "\" by_rank: true } }")) + rest + test::Simulated("SYMBOLIC");
    const auto predicted = test::RunText(text);
    std::set<int64_t> peaks;
    for (size_t r = 0; r < measured.size(); ++r) {
      test::ExpectEqual(predicted[r].memory(), measured[r].memory(), "SYMBOLIC");
      peaks.insert(measured[r].memory().peak_bytes());
    }
    EXPECT_GT(peaks.size(), 1u) << "the case is about ranks with different loads";
    test::ExpectReplayed(text, predicted);
    const auto balanced = test::RunText(Model() + rest + test::Simulated("SYMBOLIC"));
    EXPECT_NE(balanced[0].memory().peak_bytes(), measured[0].memory().peak_bytes()) << "and counts matter";
  }
}

TEST(Dropless, RoutersAreCountedByBlockInTheLastStep) {
  const auto records = test::RunText(Model() + Train(2) + "parallel { dp: 2 ep: 2 }\n" + test::kInMemory);
  for (const report::RankRecord& record : records) {
    ASSERT_EQ(record.routed_size(), 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(record.routed(i).block(), 2 * i + 1);
      const auto& tokens = record.routed(i).tokens();
      EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}), 2 * 4 * 16) << "top_k, samples, tokens";
    }
  }
  EXPECT_THAT(RoutingCsv(RankRecords(records)),
              ::testing::StartsWith("rank,block,expert 0,expert 1,expert 2,expert 3,expert 4,expert 5,expert 6,expert 7"
                                    "\n0,1,"));
}

// Without by_rank, all ranks choose alike, in proportion to the sums over the file's ranks.
TEST(Dropless, CountsOfAFileAreAddedUp) {
  const std::string folder = test::ScratchFolder("dropless"), csv = folder + "/routing.csv";
  std::filesystem::create_directories(folder);
  std::ofstream(csv) << "rank,block,expert 0,expert 1\n0,0,1,2\n0,1,7,0\n1,0,3,4\n1,1,0,5\n";
  const spec::Spec spec =
      test::Resolve(StrCat("model { moe { llama { layers: 2 hidden: 16 heads: 4 vocab: 259 sequence: 16 } experts: 2 "
                           "top_k: 1 dropless: true "
                           "routing { counts { file: \"",
                           csv, "\" } } } }\n"));
  const spec::Routing::Counts& counts = spec.model().moe().routing().counts();
  ASSERT_EQ(counts.rows_size(), 2);
  EXPECT_THAT(counts.rows(0).tokens(), ::testing::ElementsAre(4, 6));
  EXPECT_THAT(counts.rows(1).tokens(), ::testing::ElementsAre(7, 5));
  EXPECT_FALSE(counts.has_file() || counts.rows(0).has_rank());
}

// The busiest rank computes more and holds more, and all wait for it.
TEST(Dropless, UnevenRoutingTakesLongerAndMoreMemory) {
  const auto predict = [](std::string_view routing) {
    const auto records = test::RunText(
        StrCat("model { moe { llama { layers: 2 hidden: 512 heads: 8 ffn: 1024 vocab: 512 sequence: 256 } experts: 16 ",
               "dropless: true ", routing, " } }\ntrain { steps: 1 warmup_steps: 0 micro_batch: 4 }\n",
               "parallel { dp: 8 ep: 8 }\nfabric { simulated { cluster: \"dgx-a100\" } }\n"));
    int64_t peak = 0;
    for (const report::RankRecord& record : records) peak = std::max(peak, record.memory().peak_bytes());
    return std::pair(records[0].steps(0).seconds(), peak);
  };
  const auto [balanced, least] = predict("");
  const auto [zipf, most] = predict("routing { zipf { exponent: 1 } }");
  EXPECT_GT(zipf, 1.05 * balanced);
  EXPECT_GT(most, 1.05 * static_cast<double>(least));
  EXPECT_EQ(predict("routing { zipf { exponent: 0 } }"), std::pair(balanced, least));
}

}  // namespace dropless_test
}  // namespace twofold
