// What the size of the data decides: steps of epochs, and samples held out for validation.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "tests/unit/spec/resolved.h"

namespace twofold {
namespace spec_length_test {

using ::google::protobuf::util::MessageDifferencer;
using resolved::Resolved;
using ::testing::HasSubstr;

spec::Spec WithData(const std::string& train, const DataSizes& sizes) {
  spec::Spec spec = Resolved(StrCat("model { mlp { inputs: 4 classes: 3 } }\ntrain { global_batch: 8 micro_batch: 4 ",
                                    train, " }\nparallel { dp: 2 }\n"));
  const absl::Status status = ResolveLength(spec, "a/test.textproto", sizes);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

TEST(SpecLength, EpochsBecomeSteps) {
  const spec::Spec spec = WithData("epochs: 3 schedule { cosine { } }", {.data = 33});
  EXPECT_EQ(spec.train().steps(), 15);  // 5 batches of 8 hold 33 samples
  EXPECT_FALSE(spec.train().has_epochs());
  EXPECT_EQ(spec.train().schedule().cosine().decay_steps(), 15);
  EXPECT_EQ(spec.train().warmup_steps(), 2);
  EXPECT_EQ(WithData("epochs: 1", {.data = 8}).train().warmup_steps(), 0);  // leaves its only step to be measured
  EXPECT_EQ(WithData("epochs: 2 warmup_steps: 5", {.data = 33}).train().warmup_steps(), 5);
}

TEST(SpecLength, ValidationHoldsSamplesOut) {
  const spec::Validation by_default = WithData("validation { }", {.data = 105}).train().validation();
  EXPECT_EQ(by_default.samples(), 10);
  EXPECT_EQ(by_default.every_steps(), 12);  // 95 samples, 8 a step
  EXPECT_EQ(by_default.batch(), 4);
  EXPECT_EQ(WithData("validation { fraction: 0.5 }", {.data = 105}).train().validation().samples(), 52);
  EXPECT_EQ(WithData("validation { fraction: 0.01 }", {.data = 10}).train().validation().samples(), 1);
  EXPECT_EQ(WithData("validation { samples: 9 every_steps: 4 }", {.data = 10}).train().validation().every_steps(), 4);
  EXPECT_EQ(WithData("epochs: 2 validation { samples: 25 }", {.data = 105}).train().steps(), 20);
}

TEST(SpecLength, WrittenOutItRepeatsTheRun) {
  spec::Spec spec = WithData("epochs: 2 validation { fraction: 0.2 patience: 3 }", {.data = 105});
  spec::Spec again = Resolved(SpecToText(spec));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, again)) << SpecToText(again);
  ASSERT_TRUE(ResolveLength(again, "a/test.textproto", {.data = 105}).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(spec, again)) << SpecToText(again);
}

TEST(SpecLength, RefusesWhatTheDataDoesNotAllow) {
  const auto refused = [](const std::string& train, const DataSizes& sizes) {
    spec::Spec spec =
        Resolved(StrCat("model { gpt { layers: 1 hidden: 8 heads: 1 sequence: 4 } }\ntrain { ", train, " }\n"));
    const absl::Status status = ResolveLength(spec, "a/test.textproto", sizes);
    EXPECT_FALSE(status.ok()) << train;
    return std::string(status.message());
  };
  EXPECT_THAT(
      refused("validation { samples: 10 }", {.data = 10}),
      HasSubstr("a/test.textproto: train.validation.samples: 10 leave no training data of 10 samples; use at most 9"));
  EXPECT_THAT(refused("validation { samples: 6 data { text { } } }", {.data = 10, .validation = 5}),
              HasSubstr("6 are more than train.validation.data has, 5 samples; use at most 5"));
  EXPECT_THAT(refused("epochs: 1 warmup_steps: 10", {.data = 10}), HasSubstr("train.warmup_steps: 10 leaves no step"));
  EXPECT_THAT(refused("epochs: 1 schedule { warmup_steps: 10 linear { } }", {.data = 10}),
              HasSubstr("train.schedule.warmup_steps: 10 leaves no step to decay in"));
  EXPECT_THAT(
      refused("epochs: 1000000000", {.data = 1000}),
      HasSubstr("a/test.textproto: train.epochs: 1000000000 of 1000 steps each are more than 2147483648 steps"));
  EXPECT_THAT(refused("validation { }", {.data = 1}), HasSubstr("train.validation: the data has 1 sample"));
}

}  // namespace spec_length_test
}  // namespace twofold
