// What resolving a spec gives: defaults, --fabric, and writing it out again.
#include "experiments/program/spec/spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "strategies/from_spec.h"
#include "tests/unit/spec/resolved.h"

namespace twofold {
namespace spec_test {

using namespace resolved;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Spec, GoodFilesSurviveBeingWrittenOut) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/specs/good")) {
    SCOPED_TRACE(file.path());
    const absl::StatusOr<spec::Spec> spec = LoadSpec(file.path());
    ASSERT_TRUE(spec.ok()) << spec.status();
    const absl::StatusOr<spec::Spec> again = ResolveSpec(SpecToText(*spec), "elsewhere/spec.textproto");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(MessageDifferencer::Equals(*spec, *again)) << SpecToText(*spec) << "\nagainst\n" << SpecToText(*again);
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(Spec, ExamplesAreWhatTheySay) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("examples")) {
    if (file.path().extension() != ".textproto") continue;
    EXPECT_TRUE(LoadSpec(file.path()).ok()) << LoadSpec(file.path()).status();
    EXPECT_TRUE(LoadSpec(file.path(), "simulated").ok());
    ++files;
  }
  EXPECT_GE(files, 10);
}

TEST(Spec, FillsInTheDefaults) {
  const spec::Spec spec = Resolved(kMinimal);
  EXPECT_EQ(spec.name(), "test");
  EXPECT_EQ(spec.model().gpt().ffn(), 4 * 256);
  EXPECT_TRUE(spec.data().has_text());
  EXPECT_TRUE(spec.train().has_steps());
  EXPECT_EQ(spec.train().steps(), 20);
  EXPECT_EQ(spec.train().global_batch(), 1);
  EXPECT_EQ(spec.train().warmup_steps(), 2);
  EXPECT_DOUBLE_EQ(spec.train().optimizer().adamw().weight_decay(), 0.01);
  EXPECT_EQ(spec.train().precision().reduce(), spec::F32);
  EXPECT_TRUE(spec.train().schedule().has_constant());
  EXPECT_TRUE(spec.parallel().has_bucket_mib());
  EXPECT_EQ(FabricName(spec), "in_memory");
  EXPECT_DOUBLE_EQ(spec.fabric().timeout_s(), 60);
  EXPECT_EQ(WorldSize(spec), 1);
  EXPECT_EQ(AccumulationSteps(spec), 1);
}

TEST(Spec, DefaultsFollowOtherFields) {
  const spec::Spec spec = Resolved(
      "model { preset: \"mlp-small\" } train { steps: 1 micro_batch: 3 optimizer { adam {} } "
      "precision { parameter: BF16 } schedule { cosine {} } } parallel { dp: 2 }");
  EXPECT_TRUE(spec.data().has_synthetic());
  EXPECT_EQ(spec.train().global_batch(), 6);
  EXPECT_EQ(spec.train().warmup_steps(), 0);
  EXPECT_DOUBLE_EQ(spec.train().optimizer().adam().weight_decay(), 0);
  EXPECT_EQ(spec.train().precision().reduce(), spec::BF16);
  EXPECT_EQ(spec.train().schedule().cosine().decay_steps(), 1);
}

spec::Precision Precision(const std::string& text) {
  return Resolved(std::string(kMinimal) + " train { precision { " + text + " } }").train().precision();
}

TEST(Spec, GradientsAreOfTheTypeTheyTravelInAndTravelInTheTypeTheyAreOf) {
  struct Case {
    std::string text;
    spec::DType gradient, reduce, buffer;
  };
  for (const Case& c :
       {Case{"", spec::F32, spec::F32, spec::F32}, Case{"parameter: BF16", spec::BF16, spec::BF16, spec::F32},
        Case{"parameter: BF16 reduce: F32", spec::F32, spec::F32, spec::F32},
        Case{"parameter: BF16 gradient: F32", spec::F32, spec::F32, spec::F32},
        Case{"parameter: BF16 gradient: F32 reduce: BF16", spec::F32, spec::BF16, spec::F32},
        Case{"parameter: F64", spec::F64, spec::F64, spec::F64},
        Case{"buffer: F64", spec::F32, spec::F32, spec::F64}}) {
    const spec::Precision p = Precision(c.text);
    EXPECT_EQ(p.gradient(), c.gradient) << c.text;
    EXPECT_EQ(p.reduce(), c.reduce) << c.text;
    EXPECT_EQ(p.buffer(), c.buffer) << c.text;
    EXPECT_FALSE(p.has_loss_scale()) << c.text;
  }
}

TEST(Spec, WhatIsInHalfPrecisionIsScaledDynamically) {
  for (const std::string text : {"parameter: F16", "reduce: F16", "parameter: F16 gradient: F32 loss_scale {}"}) {
    const spec::Precision p = Precision(text);
    ASSERT_TRUE(p.loss_scale().has_dynamic()) << text;
    EXPECT_TRUE(p.loss_scale().dynamic().has_initial()) << text;
    EXPECT_EQ(p.loss_scale().dynamic().initial(), 65536);
  }
  EXPECT_EQ(Precision("parameter: F16 loss_scale { fixed: 128 }").loss_scale().fixed(), 128);
  EXPECT_EQ(Precision("parameter: F16 loss_scale { dynamic { initial: 8 } }").loss_scale().dynamic().growth_interval(),
            2000);
  EXPECT_TRUE(Precision("loss_scale { fixed: 1 }").loss_scale().has_fixed());
}

TEST(Spec, RecomputesWhereItIsAsked) {
  const auto every = [](const std::string& more) {
    return Resolved(kMinimal + (" train { " + more + " }")).train().activation_checkpointing().every();
  };
  EXPECT_EQ(every(""), 0);
  EXPECT_EQ(every("activation_checkpointing {}"), 1);
  EXPECT_EQ(every("activation_checkpointing { every: 4 }"), 4);
  EXPECT_EQ(every("activation_checkpointing { every: 0 }"), 0);
  EXPECT_EQ(Resolved(kMinimal, "", {"train.activation_checkpointing.recompute=FULL"})
                .train()
                .activation_checkpointing()
                .every(),
            1);
}

// A framework's profile says how blocks are recomputed, not that they are.
TEST(Spec, FrameworksRecomputeOnlyWhereItIsAsked) {
  const std::string text =
      "framework: PYTORCH_COMPILED model { preset: \"gpt2-124m\" } train { micro_batch: 1 CHECKPOINTING } "
      "parallel { dp: 8 } fabric { simulated { cluster: \"dgx-a100\" } }";
  const auto resolved = [&text](const std::string& checkpointing) {
    std::string whole = text;
    whole.replace(whole.find("CHECKPOINTING"), 13, checkpointing);
    const auto spec = ResolveSpec(whole, "framework");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? spec->train().activation_checkpointing() : spec::ActivationCheckpointing();
  };
  EXPECT_EQ(resolved("").every(), 0);
  EXPECT_EQ(resolved("activation_checkpointing {}").every(), 1);
  EXPECT_TRUE(resolved("activation_checkpointing {}").early_stop());
  EXPECT_FALSE(resolved("activation_checkpointing { early_stop: false }").early_stop());
}

TEST(Spec, CountsRanksAndAccumulation) {
  const spec::Spec spec =
      Resolved(std::string(kMinimal) + " train { global_batch: 48 micro_batch: 4 } parallel { dp: 3 }");
  EXPECT_EQ(WorldSize(spec), 3);
  EXPECT_EQ(AccumulationSteps(spec), 4);
}

// A batch is given for what it does to training; how it is cut is what a user changes.
TEST(Batches, AreCutAnotherWayBeforeTheyAreAnotherSize) {
  const auto refused = [](int global, int dp, int micro) {
    return Refused(
        StrCat(kMinimal, " train { global_batch: ", global, " micro_batch: ", micro, " } parallel { dp: ", dp, " }"));
  };
  EXPECT_THAT(
      refused(48, 4, 5),
      HasSubstr(
          "train.micro_batch: 5 is not valid: train.global_batch / (parallel.dp * train.micro_batch) = 48 / (4 * 5) "
          "is not a whole number; use train.micro_batch = 4 or 6, or train.global_batch = 40 or 60"));
  EXPECT_THAT(refused(4, 2, 8), HasSubstr("use train.micro_batch = 2, or train.global_batch = 16"));
  EXPECT_THAT(refused(30, 4, 4),
              HasSubstr("parallel.dp: 4 is not valid: train.global_batch / (parallel.dp * train.micro_batch) = 30 / (4 "
                        "* 4) is not a whole number "
                        "with any micro_batch; use parallel.dp = 3 or 5, or train.global_batch = 16 or 32"));
  EXPECT_THAT(refused(30, 4, 3), HasSubstr("use parallel.dp = 2 or 5, or train.global_batch = 24 or 36"))
      << "of those that fit the micro-batch";
}

TEST(Paths, OfTextAreNoMachinesOwnFiles) {
  for (const char* path : {"/", "//", "/usr/..", "/proc", "/sys/kernel", "/dev"}) {
    EXPECT_THAT(Refused(kMinimal, "", {StrCat("data.text.path=", path)}),
                HasSubstr(StrCat("data.text.path: \"", path,
                                 "\" belongs to the operating system; give a file or folder of text")));
  }
}

TEST(Paths, OfCheckpointsCanBeMade) {
  const std::string file = testing::TempDir() + "twofold_spec_occupied";
  std::ofstream(file) << "x";
  const auto refused = [](const std::string& path) {
    return Refused(StrCat(kMinimal, " train { checkpoint { path: \"", path, "\" } }"));
  };
  EXPECT_THAT(refused(file + "/a/b"), HasSubstr(StrCat("train.checkpoint.path: \"", file,
                                                       "/a/b\" cannot be created: ", file, " is not a folder")));
  EXPECT_THAT(refused(file), HasSubstr("is not a folder; give a folder, or a path at which one can be created"));
  std::filesystem::remove(file);
}

// ---- --fabric ----
TEST(FabricOverride, ReplacesTheFabricAndKeepsTheTimeout) {
  const std::string text = std::string(kMinimal) + " fabric { in_memory {} timeout_s: 7 }";
  const spec::Spec spec = Resolved(text, "simulated");
  EXPECT_EQ(FabricName(spec), "simulated");
  EXPECT_EQ(spec.fabric().simulated().cluster(), "this-machine");
  EXPECT_DOUBLE_EQ(spec.fabric().timeout_s(), 7);
}

TEST(FabricOverride, KeepsTheSettingsOfTheSameFabric) {
  const std::string text = std::string(kMinimal) + " fabric { simulated { data: REAL } }";
  EXPECT_EQ(Resolved(text, "simulated").fabric().simulated().data(), spec::Simulated::REAL);
  EXPECT_EQ(FabricName(Resolved(text, "in_memory")), "in_memory");
}

TEST(FabricOverride, RefusesWhatIsNoFabric) {
  EXPECT_THAT(Refused(kMinimal, "simulate"),
              AllOf(HasSubstr("--fabric=simulate: unknown fabric"), HasSubstr("did you mean simulated?")));
}

}  // namespace spec_test
}  // namespace twofold
