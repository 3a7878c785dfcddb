// What resolving a spec gives: order, presets, --fabric, --set, defaults, and writing it out again.
#include "experiments/program/spec/spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/spec/presets.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace spec_test {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMinimal[] = "model { preset: \"gpt-3m\" }";
constexpr char kMlp[] = "model { mlp { inputs: 3 hidden: [4] classes: 2 } }";

spec::Spec Resolved(const std::string& text, std::string_view fabric = "", std::vector<std::string> sets = {}) {
  absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "a/test.textproto", fabric, sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : spec::Spec();
}

std::string Refused(const std::string& text, std::string_view fabric = "", std::vector<std::string> sets = {}) {
  const absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "test.textproto", fabric, sets);
  EXPECT_FALSE(spec.ok());
  return std::string(spec.status().message());
}

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

// ---- Presets ----
TEST(Presets, AreValidModelsWithDistinctNames) {
  std::set<std::string_view> names;
  for (const ModelPreset& preset : ModelPresets()) {
    Resolved("model { preset: \"" + std::string(preset.name) + "\" }");
    names.insert(preset.name);
  }
  EXPECT_EQ(names.size(), ModelPresets().size());
}

// But for dropout, which presets leave out, and the longest sequence, which is the preset's choice.
TEST(Presets, AreThePublishedConfigs) {
  const std::pair<const char*, const char*> published[] = {{"gpt2-124m", "gpt2"},
                                                           {"gpt2-350m", "gpt2-medium"},
                                                           {"gpt2-774m", "gpt2-large"},
                                                           {"gpt2-1.5b", "gpt2-xl"},
                                                           {"llama-30b", "llama-30b"},
                                                           {"llama2-7b", "llama-2-7b"},
                                                           {"llama2-13b", "llama-2-13b"},
                                                           {"llama2-70b", "llama-2-70b"},
                                                           {"llama3-8b", "llama-3-8b"},
                                                           {"llama3-70b", "llama-3-70b"},
                                                           {"llama3-405b", "llama-3.1-405b"},
                                                           {"llama3.2-1b", "llama-3.2-1b"},
                                                           {"mistral-7b", "mistral-7b-v0.1"}};
  for (const auto& [name, file] : published) {
    spec::Model preset = Resolved(std::string("model { preset: \"") + name + "\" }").model(),
                config = Resolved(std::string("model { hf_config: \"tests/data/hf/") + file + ".json\" }").model();
    preset.clear_preset();
    if (config.has_gpt()) config.mutable_gpt()->clear_dropout();
    if (config.has_llama()) config.mutable_llama()->set_sequence(preset.llama().sequence());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(preset, config))
        << name << "\n"
        << preset.DebugString() << config.DebugString();
  }
}

// ---- The largest sizes that are accepted ----
// Counts of parameters and FLOPs are right for them: as double arithmetic, which does not wrap, has them.
TEST(LargestModels, AreCountedWithoutOverflow) {
  const double layers = 1 << 12, h = 1 << 18, ffn = 1 << 20, vocab = 1 << 22, wide = 1 << 14;
  std::string widths, blocks, hidden;
  for (int i = 0; i < 16; ++i) widths += "widths: 16384 ", blocks += "blocks: 1024 ", hidden += "hidden: 1048576 ";
  const std::pair<std::string, double> largest[] = {
      {"gpt { layers: 4096 hidden: 262144 heads: 4096 vocab: 4194304 sequence: 1048576 ffn: 1048576 tied_embeddings: "
       "false }",
       layers * (4 * h * h + 2 * h * ffn) + 2 * vocab * h + (1 << 20) * h},
      {"llama { layers: 4096 hidden: 262144 heads: 4096 vocab: 4194304 sequence: 1048576 ffn: 1048576 }",
       layers * (4 * h * h + 3 * h * ffn) + 2 * vocab * h},
      {"mlp { inputs: 1048576 classes: 1048576 " + hidden + "}", 17 * ffn * ffn},
      {"cnn { channels: 1024 height: 8192 width: 8192 classes: 1048576 " + widths + blocks + "}",
       16 * 1024 * 2 * 9 * wide * wide + 15 * wide * wide + wide * (1 << 20)}};
  for (const auto& [model, parameters] : largest) {
    // Of images and features made-up ones would be refused as too large; here no file is read.
    const bool words = model.starts_with("gpt") || model.starts_with("llama");
    const std::string data = words ? "" : "data { idx { images: \"README.md\" labels: \"README.md\" } }";
    const spec::Spec spec = Resolved("model { " + model + " } " + data);
    const auto count = static_cast<double>(ParameterCount(*ModelOf(spec.model())));
    EXPECT_NEAR(count, parameters, 1e-4 * parameters) << model;
    EXPECT_GT(ModelOf(spec.model())->TrainingFlops(1 << 16), 6.0 * (1 << 16) * parameters * 0.9) << model;
  }
}

TEST(LargestModels, OneMoreIsRefused) {
  struct Case {
    const char* preset;
    std::vector<std::string> sets;
    const char* fragment;
  };
  const Case cases[] = {
      {"gpt-3m", {"gpt.layers=4097"}, "model.gpt.layers: 4097 is out of range"},
      {"gpt-3m", {"gpt.hidden=262145"}, "model.gpt.hidden: 262145 is out of range"},
      {"gpt-3m", {"gpt.vocab=9223372036854775807"}, "model.gpt.vocab: 9223372036854775807 is out of range"},
      {"llama-3m", {"llama.ffn=1048577"}, "model.llama.ffn: 1048577 is out of range"},
      {"llama-3m",
       {"llama.heads=4096", "llama.head_dim=66"},
       "model.llama.head_dim: 66 times model.llama.heads = 4096"},
      {"llama-3m",
       {"llama.head_dim=-9223372036854775808"},
       "model.llama.head_dim: -9223372036854775808 is out of range"},
      {"llama-3m", {"llama.kv_heads=0"}, "model.llama.kv_heads: 0 is out of range"},
      {"cnn-small",
       {"cnn.height=9223372036854775807", "cnn.width=9223372036854775807"},
       "model.cnn.height: 9223372036854775807"},
      {"cnn-small", {"cnn.widths=16385", "cnn.blocks=1"}, "model.cnn.widths[0]: 16385"},
      {"mlp-small", {"mlp.hidden=-1"}, "model.mlp.hidden[0]: -1"}};
  for (const Case& c : cases) {
    std::vector<std::string> sets;
    for (const std::string& set : c.sets) sets.push_back("model." + set);
    EXPECT_THAT(Refused(std::string("model { preset: \"") + c.preset + "\" }", "", sets), HasSubstr(c.fragment));
  }
}

TEST(Presets, ExplicitSizesWin) {
  const spec::Spec gpt = Resolved("model { preset: \"gpt2-124m\" gpt { layers: 2 } }");
  EXPECT_EQ(gpt.model().gpt().layers(), 2);
  EXPECT_EQ(gpt.model().gpt().hidden(), 768);
  EXPECT_EQ(gpt.model().gpt().vocab(), 50257);
  EXPECT_EQ(gpt.model().preset(), "gpt2-124m");
  EXPECT_THAT(Resolved("model { preset: \"mlp-small\" mlp { hidden: 7 } }").model().mlp().hidden(), ElementsAre(7));
}

// ---- Files ----
TEST(File, MayStartWithAByteOrderMark) {
  EXPECT_EQ(Resolved(StrCat("\xef\xbb\xbf", kMinimal)).model().gpt().layers(), 4);
}

TEST(File, SaysWhatItIsInstead) {
  EXPECT_THAT(Refused("name: 'x' star { hosts: 2 link_gbytes_per_second: 1 }"), HasSubstr("is a cluster, not a spec"));
  EXPECT_THAT(Refused("train { steps: 99999999999999999999 }"),
              AllOf(HasSubstr("train.steps: "), HasSubstr("to 9223372036854775807")));
}

// No byte of a message moves a terminal's cursor.
MATCHER(IsPrintable, "") {
  return std::all_of(arg.begin(), arg.end(),
                     [](char c) { return c == '\n' || !absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

TEST(File, HasASchemaVersionThatTheProgramKnows) {
  const spec::Spec spec = Resolved(kMinimal);
  const std::string text = SpecFileText(spec);
  EXPECT_THAT(text, HasSubstr("schema_version: 1"));
  EXPECT_TRUE(MessageDifferencer::Equals(spec, Resolved(text))) << "the version is no part of what is run";
  const std::string later = "is of a later version of Twofold; this one reads 1";
  EXPECT_THAT(Refused(StrCat(kMinimal, " schema_version: 2")), HasSubstr(StrCat("schema_version: 2 ", later)));
  EXPECT_THAT(Refused(StrCat("brand_new: 3 ", kMinimal, " schema_version: 4")), HasSubstr(StrCat("4 ", later)));
  EXPECT_THAT(Refused(R"({"brand_new": 3, "schema_version": 5})"), HasSubstr(StrCat("5 ", later)));
  EXPECT_THAT(Refused(StrCat("brand_new: 3 ", kMinimal)), HasSubstr("brand_new"));
  EXPECT_THAT(Refused(StrCat(kMinimal, " schema_version: 0")), HasSubstr("schema_version: must be 1 or more (got 0)"));
  EXPECT_THAT(Refused(kMinimal, "", {"schema_version=2"}), HasSubstr(StrCat("schema_version: 2 ", later)));
}

TEST(File, IsTextInUtf8) {
  EXPECT_THAT(Refused("name: \"x\"\n  \x1b[31mmodel {}"),
              AllOf(HasSubstr("test.textproto:2:3: byte 12 is \\x1b, a control character; write text in UTF-8"),
                    IsPrintable()));
  EXPECT_THAT(Refused(std::string("\x7f"
                                  "ELF\x02\0\0",
                                  7)),
              AllOf(HasSubstr("test.textproto:1:1: byte 0 is \\x7f"), IsPrintable()));
  EXPECT_THAT(Refused("name: \"caf\xe9\""),
              AllOf(HasSubstr("test.textproto:1:11: byte 10 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused("name: \"\xc2\x9b"
                      "31m\""),
              HasSubstr("byte 7 is \\xc2\\x9b, a control character"))
      << "of the second kind";
  EXPECT_THAT(Refused("# \xf0\x9f\x98\n"), HasSubstr("byte 2 is \\xf0, which is not UTF-8")) << "cut short";
  EXPECT_THAT(Refused("name: \"\xed\xa0\x80\""), HasSubstr("which is not UTF-8")) << "a surrogate";
  EXPECT_THAT(Refused("name: \"\xc0\xaf\""), HasSubstr("which is not UTF-8")) << "too long for what it says";
  EXPECT_EQ(
      Resolved(StrCat("# d\xc3\xa9j\xc3\xa0 \t \xf0\x9f\x98\x80\r\n", "name: \"caf\xc3\xa9\"\n", kMinimal)).name(),
      "caf\xc3\xa9");
}

// An escape is text in the file, and a byte in the field.
TEST(File, HasStringsInUtf8) {
  EXPECT_THAT(
      Refused(StrCat("name: \"caf\\xe9\"\n", kMinimal)),
      AllOf(HasSubstr("test.textproto: name: \"caf\\xe9\": byte 3 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused("model { preset: \"\\033[31m\" }"),
              AllOf(HasSubstr("test.textproto: model.preset: \"\\x1b[31m\": byte 0 is \\x1b, a control character"),
                    IsPrintable()));
  EXPECT_THAT(
      Refused(kMinimal, "", {"name=caf\xe9"}),
      AllOf(HasSubstr("--set name=caf\\xe9: name: "), HasSubstr("byte 3 is \\xe9, which is not UTF-8"), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"name=\x1b[31m"}),
              AllOf(HasSubstr("--set name=\\x1b[31m: name: "), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"data={ text { path: \"a\\xe9\" } }"}),
              AllOf(HasSubstr("data.text.path: "), HasSubstr("byte 1 is \\xe9"), IsPrintable()));
  EXPECT_THAT(Refused(kMinimal, "", {"train.\x1b[31m=5"}), IsPrintable());
  EXPECT_THAT(Refused(kMinimal, "\x1b[31m"), IsPrintable());
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

TEST(File, TellsWhatDoesNotDivideOnce) {
  const std::string refusal = Refused(StrCat(kMinimal, " parallel { tp: 3 }"));
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("parallel.tp: 3 does not divide model.gpt.heads = 4"), Not(HasSubstr("kv_heads"))));
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

// ---- --set ----
TEST(Set, ReachesEveryKindOfField) {
  const spec::Spec spec =
      Resolved(kMinimal, "",
               {"model.gpt.layers=6", "train.optimizer.adamw.lr=1e-3", "train.seed=18446744073709551615",
                "fabric.simulated.data=REAL", "train.shuffle=false", "name= with spaces ",
                "train.schedule.cosine={ decay_steps: 9 }", "parallel.sharding=NO_SHARD"});
  EXPECT_EQ(spec.model().gpt().layers(), 6);
  EXPECT_DOUBLE_EQ(spec.train().optimizer().adamw().lr(), 1e-3);
  EXPECT_EQ(spec.train().seed(), ~uint64_t{0});
  EXPECT_EQ(spec.fabric().simulated().data(), spec::Simulated::REAL);
  EXPECT_FALSE(spec.train().shuffle());
  EXPECT_EQ(spec.name(), "with spaces");
  EXPECT_EQ(spec.train().schedule().cosine().decay_steps(), 9);
}

TEST(Set, ReplacesLists) {
  EXPECT_THAT(Resolved(kMlp, "", {"model.mlp.hidden=8, 16,32"}).model().mlp().hidden(), ElementsAre(8, 16, 32));
  EXPECT_THAT(Resolved(kMlp, "", {"model.mlp.hidden=[8, 16]"}).model().mlp().hidden(), ElementsAre(8, 16));
  EXPECT_THAT(Resolved(kMlp, "", {"device=CUDA", "cuda.gpus=[1,0]"}).cuda().gpus(), ElementsAre(1, 0));
  for (const char* none : {"model.mlp.hidden=", "model.mlp.hidden=[ ]"}) {
    EXPECT_THAT(Resolved(kMlp, "", {none}).model().mlp().hidden(), ElementsAre());
  }
}

TEST(Set, AppliesInOrderAfterPresetAndFabric) {
  const spec::Spec spec =
      Resolved(kMinimal, "in_memory", {"train.steps=3", "train.steps=4", "fabric.in_memory.link_gbps=2"});
  EXPECT_EQ(spec.train().steps(), 4);
  EXPECT_EQ(spec.fabric().in_memory().link_gbps(), 2);
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.in_memory={}"}),
              HasSubstr("contradicts --fabric=simulated; leave one out"));
}

TEST(Set, APresetReplacesTheModelAndLeavesOtherSettings) {
  const spec::Spec spec = Resolved(kMinimal, "", {"model.gpt.layers=3", "model.preset=gpt2-350m"});
  EXPECT_EQ(spec.model().gpt().layers(), 3);
  EXPECT_EQ(spec.model().gpt().hidden(), 1024);
  EXPECT_TRUE(Resolved(kMlp, "", {"model.preset=gpt-3m"}).model().has_gpt());
}

TEST(Set, TakesAModelAsABlock) {
  const spec::Spec preset = Resolved(kMinimal, "", {"model={preset: \"gpt2-350m\"}"});
  EXPECT_EQ(preset.model().gpt().hidden(), 1024);
  EXPECT_EQ(preset.model().preset(), "gpt2-350m");
  EXPECT_TRUE(Resolved(kMlp, "", {"model={ preset: \"llama-3m\" }"}).model().has_llama())
      << "of another kind than the file's";
  EXPECT_TRUE(Resolved("model { preset: \"llama-3m\" }", "", {"model={ preset: \"gpt-3m\" }"}).model().has_gpt());
  EXPECT_EQ(Resolved(kMlp, "", {"model.gpt.layers=2", "model={ preset: \"gpt-3m\" }"}).model().gpt().layers(), 2)
      << "sizes count after it, as after model.preset";
  EXPECT_EQ(Resolved(kMinimal, "", {"model={ preset: \"gpt-3m\" gpt { layers: 3 } }"}).model().gpt().layers(), 3);
  EXPECT_THAT(Resolved("model { preset: \"gpt-3m\" }", "",
                       {"model={ mlp { inputs: 4 hidden: 8 classes: 3 } }", "data={ synthetic {} }"})
                  .model()
                  .mlp()
                  .hidden(),
              ElementsAre(8));
  EXPECT_THAT(Refused(kMinimal, "", {"model={ preset: \"gpt5\" }"}),
              testing::StartsWith("--set model={ preset: \"gpt5\" }: model.preset: \"gpt5\" is not a preset"));
}

TEST(Set, AListEmptiedByHandStaysEmptyWhenWrittenOut) {
  const spec::Spec spec = Resolved("model { preset: \"mlp-small\" }", "", {"model.mlp.hidden="});
  EXPECT_THAT(Resolved(SpecToText(spec)).model().mlp().hidden(), ElementsAre());
}

TEST(Set, SaysWhatIsWrong) {
  EXPECT_THAT(Refused(kMinimal, "", {"train.stepz=4"}),
              AllOf(HasSubstr("--set train.stepz=4: train.stepz:"), HasSubstr("did you mean steps?")));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=four"}), AllOf(HasSubstr("\"four\""), HasSubstr("a whole number")));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=1e3"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps=99999999999999999999"}),
              HasSubstr("\"99999999999999999999\" is not valid; use a whole number from -9223372036854775808 to "
                        "9223372036854775807"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.precision.parameter=FP8"}),
              AllOf(HasSubstr("known: F32, F64, BF16, F16"), Not(HasSubstr("U8"))));
  EXPECT_THAT(Refused(kMinimal, "", {"train.precision.buffer=FP8"}),
              AllOf(HasSubstr("known: F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { precision { buffer: FP8 } }"),
              AllOf(HasSubstr("known: F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { precision { buffer: \"F32\" } }"),
              AllOf(HasSubstr("one of F32, F64"), Not(HasSubstr("16"))));
  EXPECT_THAT(Refused(kMinimal, "", {"train.shuffle=maybe"}), HasSubstr("true or false"));
  EXPECT_THAT(Refused(kMinimal, "", {"fabric.simulated.data=REEL"}), HasSubstr("did you mean REAL?"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps.more=1"}), HasSubstr("not a block"));
  EXPECT_THAT(Refused(kMinimal, "", {"train=5"}), HasSubstr("a block { ... }"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ stepz: 5 }"}), HasSubstr("stepz"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps"}), HasSubstr("path=value"));
  EXPECT_THAT(Refused(kMinimal, "", {"=5"}), HasSubstr("path=value"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.steps="}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMlp, "", {"model.mlp.hidden=8,,9"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMlp, "", {"model.mlp.hidden=[8, 9"}),
              AllOf(HasSubstr("\"[8\" is not valid; use a whole number"), HasSubstr("8,16 or [8, 16]")));
  EXPECT_THAT(Refused(kMlp, "", {"device=CUDA", "cuda.gpus=4294967296"}), HasSubstr("a whole number"));
  EXPECT_THAT(Refused(kMinimal, "", {"train.optimizer.adamw.lr=-1"}), HasSubstr("train.optimizer.adamw.lr: -1"));
}

TEST(Set, IsNamedForTheValuesItWrote) {
  const std::string steps =
      Refused(std::string(kMinimal) + " train { steps: 4 }", "", {"train.steps=2", "train.steps=-1"});
  EXPECT_THAT(steps, testing::StartsWith("--set train.steps=-1: train.steps: -1 is out of range"));
  EXPECT_THAT(
      Refused(std::string(kMinimal) + " parallel { tp: 4 }", "", {"parallel.dp=1048576", "fabric.in_memory={}"}),
      HasSubstr("--set parallel.dp=1048576: parallel: pp * dp * cp * tp"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ steps: -1 }"}),
              testing::StartsWith("--set train={ steps: -1 }: train.steps: -1"));
  EXPECT_THAT(Refused(kMinimal, "", {"model.preset=gpt5"}),
              testing::StartsWith(
                  "--set model.preset=gpt5: model.preset: \"gpt5\" is not a preset; did you mean gpt-3m or gpt2"));
  EXPECT_THAT(Refused(std::string(kMinimal) + " train { steps: -1 }", "", {"train.seed=1"}), Not(HasSubstr("--set")));
}

TEST(Set, TakesListsOfBlocks) {
  const auto factors = [](const std::string& list) {
    const spec::Spec spec = Resolved(kMinimal, "simulated", {"parallel.dp=4", "fabric.simulated.stragglers=" + list});
    std::vector<double> all;
    for (const spec::Straggler& s : spec.fabric().simulated().stragglers()) all.push_back(s.factor());
    return all;
  };
  EXPECT_THAT(factors("{rank: 1 factor: 2}"), ElementsAre(2));
  EXPECT_THAT(factors("[{rank: 1 factor: 2}, {rank: 3, factor: 4}]"), ElementsAre(2, 4));
  EXPECT_THAT(factors("[]"), ElementsAre());
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers.rank=1"}),
              HasSubstr("\"stragglers\" is a list of blocks; set all of it: stragglers=[{ ... }, { ... }]"));
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers=[{rank: 1}, 7]"}),
              HasSubstr("use a block { ... } with the fields"));
  EXPECT_THAT(Refused(kMinimal, "simulated", {"fabric.simulated.stragglers={rnk: 1}"}), HasSubstr("rnk"));
  EXPECT_THAT(Refused(kMinimal, "", {"train={ steps: 5 } parallel { dp: 2 }"}),
              HasSubstr("use a block { ... } with the fields"));
}

TEST(Set, TakesTextWithAndWithoutQuotes) {
  EXPECT_EQ(Resolved(kMinimal, "", {"name=\"a b\""}).name(), "a b");
  EXPECT_EQ(Resolved(kMinimal, "", {"name='a b'"}).name(), "a b");
  EXPECT_EQ(Resolved(kMinimal, "", {"name=a'b'"}).name(), "a'b'");
}

TEST(Set, ARefusedAssignmentLeavesTheSpecAsItWas) {
  spec::Spec spec = Resolved(kMlp);
  const spec::Spec before = spec;
  EXPECT_FALSE(ApplySet(spec, "model.mlp.hidden=8,x").ok());
  EXPECT_FALSE(ApplySet(spec, "fabric.simulated.data=REEL").ok());
  EXPECT_TRUE(MessageDifferencer::Equals(spec, before));
}

TEST(LoadSpec, NamesAFileThatCannotBeRead) {
  EXPECT_THAT(std::string(LoadSpec("no/such.textproto").status().message()),
              AllOf(HasSubstr("no/such.textproto: cannot be read"), HasSubstr("give the path")));
  EXPECT_THAT(std::string(LoadSpec("tests").status().message()), HasSubstr("it is a folder"));
}

// ---- What the size of the data decides ----
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

}  // namespace spec_test
}  // namespace twofold
