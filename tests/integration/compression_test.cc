// Compressed gradients in whole trainings: the simulated fabric predicts them to the bit and to the byte, a codec that
// leaves nothing out changes nothing, and a training that is resumed goes on as if it had not stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace compression_integration_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Layouts and codecs, paired so that each occurs several times.
struct Case {
  const char* label;
  const char* parallel;
  const char* codec;
  const char* precision = "parameter: F32";
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c, const std::string& codec, int64_t steps, const std::string& train = "") {
  return StrCat("model { gpt { layers: 2 hidden: 32 heads: 2 sequence: 16 } }\ntrain { steps: ", steps,
                " micro_batch: 1 global_batch: 12 optimizer { sgd { lr: 0.05 momentum: 0.9 } } precision { ",
                c.precision, " } ", train, " }\nparallel { ", c.parallel,
                codec.empty() ? "" : StrCat(" compression { ", codec, " }"), " }\n");
}

class Compression : public ::testing::TestWithParam<Case> {};

TEST_P(Compression, IsPredictedToTheBitAndToTheByte) {
  const Case& c = GetParam();
  test::ExpectAsPredicted(test::RunText(Text(c, c.codec, 5) + test::kInMemory),
                          test::RunText(Text(c, c.codec, 5) + test::Simulated("REAL")));
}

TEST_P(Compression, ChangesNothingIfNothingIsLeftOut) {
  const Case& c = GetParam();
  const auto plain = test::RunText(Text(c, "", 4) + test::kInMemory);
  ASSERT_FALSE(plain.empty());
  for (const char* codec : {"quantize { bits: 32 }", "top_k { density: 1 }", "random_k { density: 1 }"}) {
    const auto coded = test::RunText(Text(c, codec, 4) + test::kInMemory);
    ASSERT_EQ(coded.size(), plain.size());
    EXPECT_EQ(test::Losses(coded[0]), test::Losses(plain[0])) << codec;
  }
}

TEST_P(Compression, IsResumedToTheBit) {
  const Case& c = GetParam();
  const auto whole = test::RunText(Text(c, c.codec, 6) + test::kInMemory);
  ASSERT_FALSE(whole.empty());
  for (const char* kind : {"SHARDED", "FULL"}) {
    const std::string folder = test::ScratchFolder(StrCat("compression_", c.label, kind));
    test::RunText(Text(c, c.codec, 3, StrCat("checkpoint { path: \"", folder, "\" kind: ", kind, " }")) +
                  test::kInMemory);
    const auto resumed = test::RunText(Text(c, c.codec, 6, StrCat("resume: \"", folder, "\"")) + test::kInMemory);
    const std::vector<double> all = test::Losses(whole[0]);
    EXPECT_EQ(test::Losses(resumed[0]), std::vector<double>(all.begin() + 3, all.end())) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, Compression,
    ::testing::Values(
        Case{"Ddp", "dp: 4 bucket_mib: 0.02", "quantize { bits: 4 stochastic: true }"},
        Case{"DdpEveryMicroBatch", "dp: 2 reduce_every_micro_batch: true", "one_bit {}",
             "parameter: BF16 gradient: F32"},
        Case{"Zero1", "dp: 3 sharding: ZERO_1", "power_sgd { rank: 2 start_step: 2 }", "parameter: BF16 gradient: F32"},
        Case{"Zero2", "dp: 2 sharding: ZERO_2", "top_k { density: 0.05 warmup_steps: 3 }"},
        Case{"Zero3", "dp: 2 sharding: ZERO_3", "random_k { density: 0.1 }", "parameter: F16 gradient: F32"},
        Case{"Offloaded", "dp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL", "quantize {}",
             "parameter: BF16 gradient: F32"},
        Case{"Hybrid", "dp: 4 sharding: HYBRID_SHARD shard_group: 2", "one_bit {}"},
        Case{"Tensor", "dp: 2 tp: 2", "top_k { density: 0.1 momentum_correction: true }"},
        Case{"TensorSequenceZero1", "dp: 2 tp: 2 sequence_parallel: true sharding: ZERO_1", "quantize { block: 512 }"},
        Case{"Pipeline", "dp: 2 pp: 2", "power_sgd { rank: 2 start_step: 1 }"}),
    [](const auto& info) { return info.param.label; });

// 1-bit Adam takes the optimizer's place, not a codec's.
class OneBitAdam : public ::testing::TestWithParam<Case> {
 protected:
  static std::string Text(const std::string& optimizer, int64_t steps, const std::string& train = "") {
    const Case& c = GetParam();
    return StrCat("model { gpt { layers: 2 hidden: 32 heads: 2 sequence: 16 } }\ntrain { steps: ", steps,
                  " micro_batch: 1 global_batch: 12 optimizer { ", optimizer, " } precision { ", c.precision, " } ",
                  train, " }\nparallel { ", c.parallel, " }\n");
  }
  static constexpr const char* kFrozen = "one_bit_adam { lr: 0.002 freeze_step: 2 }";
};

TEST_P(OneBitAdam, IsPredictedToTheBitAndToTheByte) {
  test::ExpectAsPredicted(test::RunText(Text(kFrozen, 5) + test::kInMemory),
                          test::RunText(Text(kFrozen, 5) + test::Simulated("REAL")));
}

TEST_P(OneBitAdam, IsAdamUntilItFreezes) {
  const auto adam = test::RunText(Text("adamw { lr: 0.002 weight_decay: 0 }", 4) + test::kInMemory),
             never = test::RunText(Text("one_bit_adam { lr: 0.002 freeze_step: 4 }", 4) + test::kInMemory),
             soon = test::RunText(Text(kFrozen, 4) + test::kInMemory);
  EXPECT_EQ(test::Losses(never[0]), test::Losses(adam[0]));
  EXPECT_NE(test::Losses(soon[0]), test::Losses(adam[0]));
}

TEST_P(OneBitAdam, IsResumedToTheBit) {
  const std::vector<double> all = test::Losses(test::RunText(Text(kFrozen, 5) + test::kInMemory)[0]);
  for (const int64_t at : {1, 3}) {  // before and after freezing
    const std::string folder = test::ScratchFolder(StrCat("one_bit_adam_", GetParam().label, at));
    test::RunText(Text(kFrozen, at, StrCat("checkpoint { path: \"", folder, "\" asynchronous: true }")) +
                  test::kInMemory);
    const auto resumed = test::RunText(Text(kFrozen, 5, StrCat("resume: \"", folder, "\"")) + test::kInMemory);
    EXPECT_EQ(test::Losses(resumed[0]), std::vector<double>(all.begin() + at, all.end())) << "resumed at " << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, OneBitAdam,
                         ::testing::Values(Case{"Ddp", "dp: 4 bucket_mib: 0.02", ""},
                                           Case{"Bf16", "dp: 2", "", "parameter: BF16 gradient: F32"},
                                           Case{"TensorSequence", "dp: 2 tp: 2 sequence_parallel: true", ""},
                                           Case{"Context", "dp: 2 cp: 2", ""}, Case{"Pipeline", "dp: 2 pp: 2", ""}),
                         [](const auto& info) { return info.param.label; });

// The report says when steps began to be encoded, and how long the codec's kernels took.
TEST(CompressionReport, NamesBytesAndTimeOfTheCodec) {
  const auto report = [](const std::string& text) {
    spec::Spec spec = test::Resolve(text);
    const RunResult result = test::RunResolved(spec);
    EXPECT_TRUE(result.status.ok()) << result.status;
    const absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
    return Assemble(spec, {.fabric = "fabric", .world_size = 2}, result, *records);
  };
  const Case two{"", "dp: 2", ""};
  const std::string trace = "trace { enabled: true last_steps: 2 }\n";
  for (const char* codec : {"power_sgd { rank: 2 start_step: 2 }", "quantize {}"}) {
    SCOPED_TRACE(codec);
    const report::Report measured = report(Text(two, codec, 4) + test::kInMemory + trace),
                         predicted = report(Text(two, codec, 4) + test::Simulated("SYMBOLIC") + trace);
    const bool waits = absl::StrContains(codec, "start_step");
    for (const report::Report& r : {measured, predicted}) {
      EXPECT_GT(r.codec().seconds(), 0);
      EXPECT_LT(r.codec().seconds(), r.traced_step_seconds());
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(r.steps(i).bytes_before_codec(), r.codec().bytes_before());
        if (waits && i < 2)
          EXPECT_EQ(r.steps(i).bytes_after_codec(), r.steps(i).bytes_before_codec());
        else
          EXPECT_LT(r.steps(i).bytes_after_codec(), r.steps(i).bytes_before_codec());
      }
    }
    EXPECT_EQ(measured.codec().bytes_after(), predicted.codec().bytes_after());
    double kernels = 0;
    for (const report::KernelTotal& k : predicted.kernels()) {
      if (absl::EndsWith(k.kernel(), " (codec)")) kernels += k.seconds();
      EXPECT_EQ(absl::StrContains(k.kernel(), "quantise"), absl::StrContains(k.kernel(), "quantise (codec)"));
    }
    EXPECT_DOUBLE_EQ(kernels, predicted.codec().seconds());
  }
  EXPECT_FALSE(report(Text(two, "", 3) + test::kInMemory + trace).has_codec());
}

// ---- On other ranks ----

// A training that goes on with other ranks, buckets or codecs takes what was left out along, and says so.
TEST(CompressionCheckpoint, WhatWasLeftOutIsTakenAlong) {
  const std::string folder = test::ScratchFolder("compression_taken");
  const Case four{"", "dp: 4", ""}, two{"", "dp: 2", ""}, shards{"", "dp: 4 sharding: ZERO_2", ""};
  test::RunText(Text(four, "quantize { bits: 4 }", 2, StrCat("checkpoint { path: \"", folder, "\" }")) +
                test::kInMemory);
  const std::string resume = StrCat("resume: \"", folder, "\"");
  const auto notes = [&](const Case& c, const std::string& codec) {
    const auto records = test::RunText(Text(c, codec, 4, resume) + test::kInMemory);
    return std::vector<std::string>(records[0].notes().begin(), records[0].notes().end());
  };
  const auto divided = HasSubstr("what compression keeps (residual) was divided anew");
  const auto dropped = HasSubstr("was dropped");
  EXPECT_THAT(notes(four, "quantize { bits: 4 }"), Each(Not(AnyOf(divided, dropped))));
  EXPECT_THAT(notes(two, "quantize { bits: 4 }"), AllOf(Contains(divided), Each(Not(dropped))));
  EXPECT_THAT(notes(shards, "quantize { bits: 4 }"), AllOf(Contains(divided), Each(Not(dropped))));
  EXPECT_THAT(notes(four, "power_sgd { start_step: 0 }"),
              AllOf(Contains(divided), Contains(HasSubstr("compression begins without factors"))));
  EXPECT_THAT(notes(four, ""), Contains(HasSubstr("what compression had kept (residual) was dropped")));
}

// The loss of the last of 24 steps, which are trained on the ranks of each layout in turn, 8 steps on each.
double LastLoss(const std::vector<std::string>& layouts, const std::string& codec, const std::string& optimizer) {
  double loss = 0;
  std::string resume;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::string folder = test::ScratchFolder(StrCat("compression_ranks_", i));
    std::string text = Text({"", layouts[i].c_str(), ""}, codec, 8 * static_cast<int64_t>(i + 1),
                            StrCat(resume, " checkpoint { path: \"", folder, "\" }"));
    text = absl::StrReplaceAll(text, {{"sgd { lr: 0.05 momentum: 0.9 }", optimizer}});
    loss = test::Losses(test::RunText(text + test::kInMemory)[0]).back();
    resume = StrCat("resume: \"", folder, "\"");
  }
  return loss;
}

// A training that goes on with 2 ranks, and then with 3, learns what it would have learnt with 4. If residuals were
// dropped, losses would be up to 15 % higher.
TEST(CompressionCheckpoint, OtherRanksKeepTheCurve) {
  struct Method {
    std::string codec, optimizer = "sgd { lr: 0.1 }";
    std::vector<std::string> shardings = {"NO_SHARD", "ZERO_1", "ZERO_3"};
  };
  for (const Method& m : {Method{"quantize { bits: 4 }"}, Method{"one_bit {}"}, Method{"top_k { density: 0.02 }"},
                          Method{"random_k { density: 0.1 }"}, Method{"power_sgd { rank: 2 start_step: 2 }"},
                          Method{"", "one_bit_adam { lr: 0.002 freeze_step: 4 }", {"NO_SHARD"}}}) {
    for (const std::string& sharding : m.shardings) {
      SCOPED_TRACE(StrCat(m.codec, m.optimizer, " ", sharding));
      const auto on = [&](int ranks) { return StrCat("dp: ", ranks, " sharding: ", sharding); };
      const double same = LastLoss({on(4), on(4), on(4)}, m.codec, m.optimizer),
                   other = LastLoss({on(4), on(2), on(3)}, m.codec, m.optimizer);
      EXPECT_NEAR(other, same, 0.015 * same);
    }
  }
}

}  // namespace compression_integration_test
}  // namespace twofold
