// What lies in the host's memory changes no bit of a run; it leaves the device's ledger for the host's (as predicted:
// promises_test.cc), and its transfers hide behind computing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backends/host/emulated_device.h"
#include "core/base/errors.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace offload_test {

using ::testing::HasSubstr;

struct Case {
  const char* label;
  const char* offload;
  int ranks;
  const char* parallel;
  bool bf16 = false;
  int accumulation = 1;
  const char* optimizer = "adamw { lr: 1e-3 weight_decay: 0.1 }";
  const char* train = "clip_norm: 0.5";
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c, const char* offload) {
  return StrCat("model { gpt { layers: 3 hidden: 32 heads: 2 sequence: 8 } }\ntrain { steps: 8 micro_batch: ",
                12 / (c.ranks * c.accumulation), " global_batch: 12 ", c.train, " optimizer { ", c.optimizer,
                " } precision { parameter: ", c.bf16 ? "BF16 gradient: F32 reduce: BF16" : "F32",
                " } }\nparallel { dp: ", c.ranks, " ", c.parallel, " offload: ", offload, " }\n");
}

int64_t OfCategory(const google::protobuf::RepeatedPtrField<report::Category>& categories, std::string_view name) {
  for (const report::Category& c : categories) {
    if (c.name() == name) return c.peak_bytes();
  }
  return 0;
}

class Offload : public ::testing::TestWithParam<Case> {};

TEST_P(Offload, ChangesNoBitAndLeavesTheDevice) {
  const Case& c = GetParam();
  const std::string text = Text(c, c.offload);
  const auto stays = test::RunText(Text(c, "NO_OFFLOAD") + test::kInMemory);
  const auto goes = test::RunText(text + test::kInMemory);
  for (size_t r = 0; r < goes.size(); ++r) {
    EXPECT_EQ(test::Losses(goes[r]), test::Losses(stays[r])) << "rank " << r;

    const report::Rank &before = stays[r].memory(), &measured = goes[r].memory();
    EXPECT_EQ(before.host_peak_bytes(), 0);
    const int64_t state = OfCategory(before.categories(), "optimizer_state");
    EXPECT_GE(OfCategory(measured.host_categories(), "optimizer_state"), state * 99 / 100);
    EXPECT_LE(measured.peak_bytes(), before.peak_bytes());
    if (std::string_view(c.offload) == "OFFLOAD_ALL") {
      EXPECT_GT(OfCategory(measured.host_categories(), "parameters"), 0);
      EXPECT_GT(OfCategory(measured.host_categories(), "gradients"), 0);
    }
  }
}

std::vector<Case> Cases() {
  return {
      {"Alone", "OFFLOAD_OPTIMIZER", 1, ""},
      {"Ddp", "OFFLOAD_OPTIMIZER", 2, "bucket_mib: 0.05"},
      {"DdpBf16", "OFFLOAD_OPTIMIZER", 2, "", true},
      {"Zero1", "OFFLOAD_OPTIMIZER", 2, "sharding: ZERO_1"},
      {"Zero2", "OFFLOAD_OPTIMIZER", 3, "sharding: ZERO_2", true, 4},
      {"Zero3", "OFFLOAD_OPTIMIZER", 2, "sharding: ZERO_3"},
      {"Momentum", "OFFLOAD_OPTIMIZER", 2, "sharding: ZERO_3", true, 1, "sgd { lr: 0.1 momentum: 0.9 nesterov: true }"},
      {"NoState", "OFFLOAD_OPTIMIZER", 2, "sharding: ZERO_3", false, 1, "sgd { lr: 0.1 }"},
      {"All", "OFFLOAD_ALL", 2, "sharding: ZERO_3"},
      {"AllAlone", "OFFLOAD_ALL", 1, "sharding: ZERO_3"},
      {"AllAloneBf16", "OFFLOAD_ALL", 1, "sharding: ZERO_3", true},
      {"AllBf16", "OFFLOAD_ALL", 2, "sharding: ZERO_3", true},
      {"AllAccumulated", "OFFLOAD_ALL", 3, "sharding: ZERO_3", false, 4},
      {"AllAccumulatedBf16", "OFFLOAD_ALL", 2, "sharding: ZERO_3", true, 3},
      {"AllReducedOnce", "OFFLOAD_ALL", 2, "sharding: ZERO_3 reduce_every_micro_batch: false", false, 3},
      {"AllDeep", "OFFLOAD_ALL", 2, "sharding: ZERO_3 prefetch: 3 backward_prefetch: BACKWARD_POST"},
      {"AllLimited", "OFFLOAD_ALL", 2, "sharding: ZERO_3 prefetch: 3 prefetch_limit_mib: 0.06"},
      {"AllShallow", "OFFLOAD_ALL", 2, "sharding: ZERO_3 prefetch: 0 backward_prefetch: BACKWARD_NONE", false, 3},
      {"AllKept", "OFFLOAD_ALL", 2, "sharding: ZERO_3 reshard_after_forward: false", false, 3},
      {"AllOneUnit", "OFFLOAD_ALL", 2, "sharding: ZERO_3 wrap { min_parameters: 1000000 }", false, 3},
      {"AllNoOverlap", "OFFLOAD_ALL", 2, "sharding: ZERO_3 overlap: false", false, 3},
      {"AllHybrid", "OFFLOAD_ALL", 4, "sharding: HYBRID_SHARD shard_group: 2", true, 3},
      {"AllHybridOneUnit", "OFFLOAD_ALL", 4, "sharding: HYBRID_SHARD shard_group: 2 wrap { min_parameters: 1000000 }",
       false, 3},
      {"AllUnclipped", "OFFLOAD_ALL", 2, "sharding: ZERO_3", false, 1, "sgd { lr: 0.1 }", ""},
      {"AllValidated", "OFFLOAD_ALL", 2, "sharding: ZERO_3", false, 1, "adamw { lr: 1e-3 }",
       "validation { every_steps: 3 samples: 24 }"}};
}

INSTANTIATE_TEST_SUITE_P(Cases, Offload, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.label); });

// ---- The host's budget ----

TEST(OffloadBudget, IsEnforcedAlike) {
  const std::string text = StrCat(Text(Cases()[0], "OFFLOAD_OPTIMIZER"), "memory { host_budget_mib: 0.1 }\n");
  std::string messages[2];
  int i = 0;
  for (const std::string& fabric : {std::string(test::kInMemory), test::Simulated("SYMBOLIC")}) {
    spec::Spec spec = test::Resolve(text + fabric);
    const RunResult result = test::RunResolved(spec);
    EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOutOfMemory) << result.status;
    messages[i++] = std::string(result.status.message());
  }
  EXPECT_THAT(messages[0], HasSubstr("rank 0: out of host memory: asked for "));
  EXPECT_THAT(messages[0], HasSubstr("of optimizer_state"));
  EXPECT_EQ(messages[0], messages[1]);
}

// ---- Time ----

constexpr char kEmulated[] = "device: EMULATED\nemulated { cluster: \"tests/integration/slow_host_link.textproto\" }\n";

std::string Timed(const char* parallel) {
  return StrCat(
      "model { gpt { layers: 4 hidden: 128 heads: 2 sequence: 64 } }\ntrain { steps: 12 micro_batch: 2 global_batch: "
      "16 }\n",
      "parallel { dp: 2 sharding: ZERO_3 ", parallel, " }\n", kEmulated);
}

double Median(const report::RankRecord& record) {
  std::vector<double> seconds;
  for (const report::Step& step : record.steps()) seconds.push_back(step.seconds());
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double Total(const report::RankRecord& record) {
  double total = 0;
  for (const report::Step& step : record.steps()) total += step.seconds();
  return total;
}

double Exposed(const report::RankRecord& record) {
  return record.steps(record.steps_size() - 1).exposed_communication_seconds();
}

double Transferring(const report::RankRecord& record) {
  double seconds = 0;
  for (const report::Span& s : record.spans()) {
    if (s.name() == "transfer") seconds += s.end() - s.start();
  }
  return seconds;
}

constexpr char kLinks[] = "fabric { in_memory { link_gbps: 40 latency_us: 20 } }\n";
constexpr char kLinksPredicted[] = "fabric { simulated { link_gbps: 40 latency_us: 20 } }\n";

TEST(OffloadTime, IsPredictedAndTraced) {
  const std::string text = Timed("offload: OFFLOAD_ALL");
  const auto predicted = test::RunText(text + kLinksPredicted)[0], measured = test::RunText(text + kLinks)[0];
  // A machine with other things to do is late; a rank is never ahead (the experiment says how close both are).
  EXPECT_GE(Total(measured), Total(predicted) - host::EmulatedDevice::kMostLate);
  EXPECT_GT(Transferring(predicted), 0);
  EXPECT_NEAR(Transferring(measured) / Transferring(predicted), 1, 1e-6);
  EXPECT_EQ(predicted.memory().host_peak_bytes(), measured.memory().host_peak_bytes());
  EXPECT_THAT(std::vector<std::string>(predicted.notes().begin(), predicted.notes().end()),
              ::testing::Contains(HasSubstr("exposed communication includes waits for transfers")));
}

TEST(OffloadTime, PrefetchingHidesTransfers) {
  const auto ahead = test::RunText(Timed("offload: OFFLOAD_ALL") + kLinksPredicted)[0];
  const auto late =
      test::RunText(Timed("offload: OFFLOAD_ALL prefetch: 0 backward_prefetch: BACKWARD_NONE") + kLinksPredicted)[0];
  EXPECT_NEAR(Transferring(ahead), Transferring(late), 1e-9) << "as much to transfer";
  EXPECT_LT(Exposed(ahead), 0.8 * Exposed(late));
  EXPECT_LT(Median(ahead), Median(late));
}

}  // namespace offload_test
}  // namespace twofold
