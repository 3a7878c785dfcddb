// Compressed gradients in whole trainings: the simulated fabric predicts them to the bit and to the byte, a codec that
// leaves nothing out changes nothing, and a training that is resumed goes on as if it had not stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace compression_integration_test {

using ::testing::Contains;
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
  const auto measured = test::RunText(Text(c, c.codec, 5) + test::kInMemory),
             predicted = test::RunText(Text(c, c.codec, 5) + test::Simulated("REAL"));
  ASSERT_EQ(measured.size(), predicted.size());
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(test::Losses(measured[r]), test::Losses(predicted[r])) << "rank " << r;
    EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes()) << "rank " << r;
    EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes()) << "rank " << r;
  }
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
  const auto measured = test::RunText(Text(kFrozen, 5) + test::kInMemory),
             predicted = test::RunText(Text(kFrozen, 5) + test::Simulated("REAL"));
  ASSERT_EQ(measured.size(), predicted.size());
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(test::Losses(measured[r]), test::Losses(predicted[r])) << "rank " << r;
    EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes()) << "rank " << r;
    EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes()) << "rank " << r;
  }
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
                                           Case{"Pipeline", "dp: 2 pp: 2", ""}),
                         [](const auto& info) { return info.param.label; });

// On other ranks, or with another codec, what was left out cannot be continued with. The run says so.
TEST(CompressionCheckpoint, WhatDoesNotFitIsDroppedAndSaidSo) {
  const std::string folder = test::ScratchFolder("compression_dropped");
  const Case four{"", "dp: 4", ""}, two{"", "dp: 2", ""};
  test::RunText(Text(four, "quantize { bits: 4 }", 2, StrCat("checkpoint { path: \"", folder, "\" }")) +
                test::kInMemory);
  const std::string resume = StrCat("resume: \"", folder, "\"");
  const auto notes = [&](const Case& c, const std::string& codec) {
    const auto records = test::RunText(Text(c, codec, 4, resume) + test::kInMemory);
    return std::vector<std::string>(records[0].notes().begin(), records[0].notes().end());
  };
  const auto dropped = HasSubstr("what compression had left out of earlier messages was dropped");
  EXPECT_THAT(notes(two, "quantize { bits: 4 }"), Contains(dropped));
  EXPECT_THAT(notes(four, "power_sgd { start_step: 0 }"), Contains(dropped));
  EXPECT_THAT(notes(four, ""), Contains(dropped));
  const std::string other = test::ScratchFolder("compression_other_order");
  const Case mesh{"", "dp: 2 tp: 2", ""}, turned{"", "dp: 2 tp: 2 order: \"pp tp cp dp\"", ""};
  test::RunText(Text(mesh, "top_k { density: 0.1 }", 2, StrCat("checkpoint { path: \"", other, "\" }")) +
                test::kInMemory);
  const auto records =
      test::RunText(Text(turned, "top_k { density: 0.1 }", 4, StrCat("resume: \"", other, "\"")) + test::kInMemory);
  EXPECT_THAT(records[0].notes(), Contains(dropped));
  EXPECT_THAT(notes(four, "quantize { bits: 4 }"), Not(Contains(dropped)));
}

}  // namespace compression_integration_test
}  // namespace twofold
