// Devices that are emulated and links that are slowed down, against the prediction of the same spec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_format.h"
#include "backends/host/emulated_device.h"
#include "backends/host/sleep.h"
#include "core/base/errors.h"
#include "tests/integration/run_spec.h"
#include "tests/tries.h"

namespace twofold {
namespace emulated_test {

using ::testing::HasSubstr;

constexpr char kEmulated[] = "device: EMULATED\nemulated { cluster: \"star-a100\" speed: 0.02 }\n";
constexpr char kSlow[] = "fabric { in_memory { link_gbps: 1 latency_us: 50 } }\n";
constexpr char kSlowPredicted[] = "fabric { simulated { link_gbps: 1 latency_us: 50 } }\n";

std::string Text(int ranks, const std::string& more = "") {
  return StrCat(test::kTinyGpt, "train { steps: 6 micro_batch: 2 global_batch: ", 2 * ranks, " ", more,
                " }\nparallel { dp: ", ranks, " bucket_mib: 0.01 }\n", kEmulated);
}

double Total(const report::RankRecord& record) {
  double total = 0;
  for (const report::Step& step : record.steps()) total += step.seconds();
  return total;
}

class Emulated : public ::testing::TestWithParam<int> {};

// A machine with other things to do is late, and a little of that shows. Ranks are never ahead of what is emulated;
// what the first step was late by at its start, later ones make up for. That is more than kMostLate where a rank does
// not get its turn as the first step begins; then it is tried again.
bool TakesAsLong(const std::string& text, const std::vector<report::RankRecord>& predicted) {
  return InSomeTry([&] {
    const auto measured = test::RunText(text);
    EXPECT_EQ(measured.size(), predicted.size());
    for (size_t r = 0; r < measured.size(); ++r) {
      EXPECT_EQ(measured[r].steps_size(), predicted[r].steps_size());
      if (Total(measured[r]) < Total(predicted[r]) - host::EmulatedDevice::kMostLate) return false;
    }
    return true;
  });
}

TEST_P(Emulated, TakesTheTimeThatIsPredicted) {
  std::string text = Text(GetParam());
  text.replace(text.find("steps: 6"), 8, "steps: 60");
  const auto predicted = test::RunText(text + kSlowPredicted);
  EXPECT_EQ(predicted.at(0).steps_size(), 60);
  EXPECT_TRUE(TakesAsLong(text + kSlow, predicted));
  EXPECT_GT(Total(predicted[0]), 3 * host::EmulatedDevice::kMostLate) << "too little to tell";
}

TEST(EmulatedStragglers, TakeTheTimeThatIsPredicted) {
  std::string text = Text(2);
  text.replace(text.find("steps: 6"), 8, "steps: 30");
  constexpr char kSlowRank[] = " link_gbps: 1 latency_us: 50 stragglers { rank: 1 factor: 3 } } }\n";
  const auto alike = test::RunText(text + kSlowPredicted),
             predicted = test::RunText(StrCat(text, "fabric { simulated {", kSlowRank));
  EXPECT_GT(Total(predicted.at(0)), Total(alike.at(0)) + 2 * host::EmulatedDevice::kMostLate) << "too little to tell";
  EXPECT_TRUE(TakesAsLong(StrCat(text, "fabric { in_memory {", kSlowRank), predicted));
}

TEST_P(Emulated, MemoryAndCommunicationAreWhatIsPredicted) {
  const auto predicted = test::RunText(Text(GetParam()) + kSlowPredicted),
             measured = test::RunText(Text(GetParam()) + kSlow);
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(predicted[r].memory().peak_bytes(), measured[r].memory().peak_bytes());
    EXPECT_EQ(predicted[r].memory().reserved_bytes(), measured[r].memory().reserved_bytes());
    ASSERT_EQ(predicted[r].collectives_size(), measured[r].collectives_size());
    for (int c = 0; c < measured[r].collectives_size(); ++c) {
      EXPECT_EQ(predicted[r].collectives(c).count(), measured[r].collectives(c).count());
      EXPECT_EQ(predicted[r].collectives(c).bytes(), measured[r].collectives(c).bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Emulated, ::testing::Values(1, 2, 4));

// What sharded layouts do: gathers on one stream beside reductions on another, beside compute. Seconds that it takes.
double GatherAndReduceBesideCompute(RankContext& c) {
  const auto gather = c.world().SplitEvenly(c.world_size(), ProcessGroup::Pattern::kConsecutive, "gather");
  const auto reduce = c.world().SplitEvenly(c.world_size(), ProcessGroup::Pattern::kConsecutive, "reduce");
  auto floats = [&c](int64_t n) { return c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther); };
  const int64_t n = 120'000;
  Tensor full = floats(n), part = floats(n / c.world_size()), sums = floats(n), mine = floats(n / c.world_size());
  auto compute = [&] { c.device().Launch(c.device().compute(), ops::Fill{floats(30'000'000), 0}); };
  c.world().Barrier().Wait();
  const double start = c.clock().Now().value();
  for (int i = 0; i < 20; ++i) {
    Work gathered = gather->AllGather(full, part);
    compute();
    Work reduced = reduce->ReduceScatter(mine, sums);
    gathered.WaitOn(c.device().compute());
    gathered = gather->AllGather(full, part);  // meets the reduction
    compute();
    reduced.WaitOn(c.device().compute());
    gathered.WaitOn(c.device().compute());
  }
  c.device().compute().Synchronize();
  return c.clock().Now().value() - start;
}

// On a machine with other things to do it takes longer now and then; it is never ahead.
TEST_P(Emulated, GroupsThatShareSlowLinksTakeTheTimeThatIsPredicted) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank communicates with nobody";
  auto seconds = [](const std::string& fabric) {
    spec::Spec spec = test::Resolve(Text(GetParam()) + fabric);
    const RunResult result = (*MakeFabric(spec))->Run(GetParam(), [](RankContext& c) {
      return absl::StrFormat("%.17g", GatherAndReduceBesideCompute(c));
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    return std::stod(result.results[0]);
  };
  const double predicted = seconds(kSlowPredicted);
  const double measured = seconds(kSlow);
  EXPECT_GE(measured, predicted - host::EmulatedDevice::kMostLate);
  RecordProperty("measured_over_predicted", absl::StrFormat("%.4f", measured / predicted));
}

// Two sites with a link of a tenth of a rank's rate, and 5 ms, between them.
TEST(EmulatedSites, TakeTheTimeThatIsPredicted) {
  const std::string sites = "sites { count: 2 between_gbps: 0.1 latency_ms: 5 } ";
  auto seconds = [](const std::string& links) {
    return Total(test::RunText(Text(4, "optimizer { sgd {} }") + StrCat("fabric { ", links, " } }\n"))[0]);
  };
  const std::string slow = "{ link_gbps: 1 latency_us: 50 ";
  const double predicted = seconds("simulated " + slow + sites), measured = seconds("in_memory " + slow + sites);
  EXPECT_GT(predicted, 2 * seconds("simulated " + slow)) << "the links between sites change little";
  EXPECT_GE(measured, predicted - host::EmulatedDevice::kMostLate);
  RecordProperty("measured_over_predicted", absl::StrFormat("%.4f", measured / predicted));
}

TEST(EmulatedSpeed, ScalesTheTime) {
  const std::string fast = Text(2) + "fabric { simulated { link_gbps: 1000 } }\n";
  std::string slow = fast;
  slow.replace(slow.find("0.02"), 4, "0.01");
  EXPECT_NEAR(Total(test::RunText(slow)[0]) / Total(test::RunText(fast)[0]), 2, 0.1);
}

TEST(EmulatedTraining, HasStandInsForLosses) {
  const auto records = test::RunText(Text(2, "validation { every_steps: 1 samples: 13 patience: 1 }") + kSlow);
  for (const double loss : test::Losses(records[0])) EXPECT_DOUBLE_EQ(loss, std::log(256.0));
  EXPECT_EQ(records[0].steps_size(), 6) << "stopped early by a stand-in";
  EXPECT_EQ(records[0].validations_size(), 6);
}

// A trace shows operations one after the other, as long as they are modelled.
TEST(EmulatedTraining, IsTraced) {
  const auto records = test::RunText(Text(2) + kSlow);
  double kernels = 0, overlapping = 0, last = -1;  // a rank that is late has its first one begin before the step
  for (const report::Span& s : records[0].spans()) {
    if (s.stream() != "compute") continue;
    kernels += s.end() - s.start();
    overlapping = std::max(overlapping, last - s.start());
    last = s.end();
  }
  EXPECT_GT(kernels, 0);
  EXPECT_LT(overlapping, 1e-9);
}

// Two ranks that a test makes do things, over links of 1 Gb/s.
void OnTwoRanks(const std::function<void(RankContext&, host::EmulatedDevice&)>& fn) {
  const spec::Spec spec = test::Resolve(Text(2) + kSlow);
  const RunResult result = (*MakeFabric(spec))->Run(2, [&](RankContext& c) {
    fn(c, dynamic_cast<host::EmulatedDevice&>(c.device()));
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// A rank that was away for long does not send in the past.
TEST(EmulatedDevice, MakesUpForALittleLatenessOnly) {
  OnTwoRanks([](RankContext& c, host::EmulatedDevice& device) {
    Tensor t = device.NewTensor(Shape{1'000'000}, DType::kF32, Category::kOther);
    c.world().Barrier().Wait();
    const double before = device.CatchUp();
    std::this_thread::sleep_for(std::chrono::duration<double>(4 * device.kMostLate));
    const double start = host::SteadyNow();
    c.world().AllReduce(t).Wait();
    EXPECT_GE(host::SteadyNow() - start, 32e-3);  // 4 MB
    EXPECT_GE(device.CatchUp() - before, 4 * device.kMostLate + 32e-3);
  });
}

// Also where the host comes to wait when all is over: what follows does not begin before that.
TEST(EmulatedDevice, GoesOnWhereWhatItWaitedForEnded) {
  OnTwoRanks([](RankContext& c, host::EmulatedDevice& device) {
    Tensor t = device.NewTensor(Shape{250'000}, DType::kF32, Category::kOther);
    c.world().Barrier().Wait();
    const double start = device.CatchUp();
    Work sum = c.world().AllReduce(t);
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    sum.WaitOn(device.compute());
    EXPECT_GE(device.CatchUp() - start, 8e-3);  // 1 MB
  });
}

absl::Status Made(const std::string& text) { return MakeFabric(test::Resolve(text)).status(); }

TEST(EmulatedDevice, IsRefusedWhereItIsNotKnown) {
  const std::string model = StrCat(test::kTinyMlp, "device: EMULATED\n");
  EXPECT_THAT(std::string(Made(model + "emulated { cluster: \"moon\" }").message()),
              HasSubstr("emulated.cluster: \"moon\" is neither a known cluster nor a .textproto file"));
  EXPECT_THAT(std::string(Made(model + "fabric { simulated { cluster: \"star-a100\" link_gbps: 1 } }").message()),
              HasSubstr("cluster star-a100 has its own links"));
  EXPECT_THAT(std::string(Made(model + "fabric { simulated { links: \"mpi\" link_gbps: 1 } }").message()),
              HasSubstr("fabric.simulated.links is \"mpi\""));
}

TEST(EmulatedDevice, HasTheMemoryOfItsCluster) {
  const std::string text =
      "model { preset: \"gpt2-1.5b\" }\ntrain { steps: 1 micro_batch: 64 }\ndevice: EMULATED\n"
      "emulated { cluster: \"star-a100\" speed: 1e6 }\n";
  spec::Spec spec = test::Resolve(text);
  const RunResult result = test::RunResolved(spec);
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOutOfMemory) << result.status;
}

}  // namespace emulated_test
}  // namespace twofold
