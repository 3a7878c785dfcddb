// Islands that meet every few steps, in whole trainings: the simulated fabric predicts them to the bit and to the byte,
// meeting every step is plain data parallelism, and a training that is resumed goes on as if it had not stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <string>
#include <vector>

#include "experiments/program/memory/predict.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace local_update_integration_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 32 heads: 2 sequence: 16 } }";
constexpr char kMoe[] =
    "model { moe { llama { layers: 2 hidden: 32 heads: 4 kv_heads: 2 ffn: 48 sequence: 16 } experts: 2 } }";
constexpr char kCnn[] = "model { cnn { height: 8 width: 8 widths: [4, 8] blocks: [1, 1] } }";

struct Case {
  const char* label;
  const char* parallel;
  const char* local_update;
  const char* model = kGpt;
  const char* precision = "parameter: F32";
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c, int64_t steps, const std::string& train = "",
                 const std::string& optimizer = "adamw { lr: 0.001 }") {
  const std::string local = c.local_update;
  return StrCat(c.model, "\ntrain { steps: ", steps,
                " micro_batch: 1 global_batch: 8 report_loss_every: 1 optimizer { ", optimizer, " } precision { ",
                c.precision, " } ", local.empty() ? "" : StrCat("local_update { ", local, " } "), train,
                " }\nparallel { ", c.parallel, " }\n");
}

std::vector<double> LossesOf(const Case& c, int64_t steps, const std::string& train = "") {
  const auto records = test::RunText(Text(c, steps, train) + test::kInMemory);
  return records.empty() ? std::vector<double>() : test::Losses(records[0]);
}

class LocalUpdates : public ::testing::TestWithParam<Case> {};

TEST_P(LocalUpdates, ArePredictedToTheBitAndToTheByte) {
  const Case& c = GetParam();
  test::ExpectAsPredicted(test::RunText(Text(c, 7) + test::kInMemory),
                          test::RunText(Text(c, 7) + test::Simulated("REAL")));
}

// The replay that skips repeated steps finds the same memory.
TEST_P(LocalUpdates, HaveThePredictedMemory) {
  const std::string text = Text(GetParam(), 25) + test::kInMemory;
  spec::Spec spec = test::Resolve(text);
  const auto data = LoadTrainingData(spec, "test.textproto");
  ASSERT_TRUE(data.ok()) << data.status();
  const auto predicted = PredictMemory(spec, data->samples(), /*bounded=*/false);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  int64_t peak = 0, reserved = 0;
  for (const auto& record : test::RunText(text)) {
    peak = std::max(peak, record.memory().peak_bytes());
    reserved = std::max(reserved, record.memory().reserved_bytes());
  }
  EXPECT_EQ(predicted->largest().record.memory().peak_bytes(), peak);
  EXPECT_EQ(predicted->largest().record.memory().reserved_bytes(), reserved);
}

TEST_P(LocalUpdates, AreResumedToTheBit) {
  const Case& c = GetParam();
  const std::vector<double> all = LossesOf(c, 9);
  ASSERT_EQ(all.size(), 9u);
  for (const char* kind : {"SHARDED", "FULL asynchronous: true"}) {
    const std::string folder = test::ScratchFolder(StrCat("local_update_", c.label, "_", std::string(kind, 4)));
    LossesOf(c, 5, StrCat("checkpoint { path: \"", folder, "\" kind: ", kind, " }"));
    EXPECT_EQ(LossesOf(c, 9, StrCat("resume: \"", folder, "\"")), std::vector<double>(all.begin() + 5, all.end()))
        << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, LocalUpdates,
    ::testing::Values(
        Case{"Ddp", "dp: 4", "diloco { every_steps: 3 }"},
        Case{"IslandsOfTwo", "dp: 4 islands: 2", "local_sgd { every_steps: 2 }", kCnn},
        Case{"Zero1", "dp: 4 islands: 2 sharding: ZERO_1", "diloco { every_steps: 2 } quantize { bits: 4 }", kGpt,
             "parameter: BF16 gradient: F32"},
        Case{"Zero2", "dp: 4 islands: 2 sharding: ZERO_2", "diloco { every_steps: 3 outer_lr: 0.9 nesterov: false }"},
        Case{"Zero3", "dp: 4 islands: 2 sharding: ZERO_3",
             "diloco { every_steps: 4 } streaming { fragments: 2 overlap_steps: 2 }", kGpt,
             "parameter: BF16 gradient: F32"},
        Case{"Hybrid", "dp: 4 islands: 1 sharding: HYBRID_SHARD shard_group: 2", "diloco { every_steps: 3 }"},
        Case{"Streaming", "dp: 2", "diloco { every_steps: 6 } streaming { fragments: 3 overlap_steps: 3 } quantize {}"},
        Case{"StreamingAverages", "dp: 2", "local_sgd { every_steps: 4 } streaming { overlap_steps: 1 weight: 0.7 }"},
        Case{"Tensor", "dp: 2 tp: 2 sequence_parallel: true", "diloco { every_steps: 3 } quantize { bits: 4 }"},
        Case{"Pipeline", "dp: 2 pp: 2", "diloco { every_steps: 2 } quantize { bits: 8 }"},
        Case{"Experts", "dp: 4 ep: 2 islands: 2", "diloco { every_steps: 2 }", kMoe},
        Case{"Float64", "dp: 2", "diloco { every_steps: 2 }", kGpt, "parameter: F64"}),
    [](const auto& info) { return info.param.label; });

// Means of parameters after one step of SGD are the step with the mean gradient. Validations are over all islands.
TEST(LocalUpdate, EveryStepIsPlainDataParallelism) {
  const auto losses = [](const char* local_update) {
    const Case c{"", "dp: 4", local_update};
    const auto records =
        test::RunText(Text(c, 6, "validation { every_steps: 3 samples: 10 }", "sgd { lr: 0.5 }") + test::kInMemory);
    std::vector<double> all = test::Losses(records[0]);
    for (const report::Validation& validation : records[0].validations()) all.push_back(validation.loss());
    return all;
  };
  const std::vector<double> plain = losses("");
  for (const char* same :
       {"local_sgd { every_steps: 1 }", "diloco { every_steps: 1 outer_lr: 1 outer_momentum: 0 nesterov: false }"}) {
    const std::vector<double> local = losses(same);
    ASSERT_EQ(local.size(), plain.size());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(local[i], plain[i], 2e-6) << same << ", loss " << i;
  }
  EXPECT_GT(std::abs(losses("diloco { every_steps: 1 }").back() - plain.back()), 1e-3);
}

// The same, with what is sent of the parameters encoded without loss.
TEST(LocalUpdate, CodesWithoutLossChangeNothing) {
  const auto losses = [](const char* quantize) {
    const std::string local_update = StrCat("diloco { every_steps: 2 } ", quantize);
    return LossesOf({"", "dp: 2", local_update.c_str()}, 6);
  };
  EXPECT_EQ(losses("quantize { bits: 32 }"), losses(""));
}

// Between outer steps islands differ; a run with other islands goes on from the common parameters, and says so.
TEST(LocalUpdate, OtherIslandsGoOnFromTheCommonParameters) {
  const std::string folder = test::ScratchFolder("local_update_other");
  const Case four{"", "dp: 4", "diloco { every_steps: 2 }"};
  LossesOf(four, 5, StrCat("checkpoint { path: \"", folder, "\" }"));
  const std::string resume = StrCat("resume: \"", folder, "\"");
  const auto notes = [&](const Case& c) {
    const auto records = test::RunText(Text(c, 7, resume) + test::kInMemory);
    return std::vector<std::string>(records[0].notes().begin(), records[0].notes().end());
  };
  const auto common = HasSubstr("training goes on from the common parameters of its last outer step");
  EXPECT_THAT(notes({"", "dp: 4 islands: 2", "diloco { every_steps: 2 }"}), Contains(common));
  EXPECT_THAT(notes({"", "dp: 2", "diloco { every_steps: 2 }"}), Contains(common));
  EXPECT_THAT(notes({"", "dp: 4", ""}), Contains(common));
  EXPECT_THAT(notes({"", "dp: 4", "diloco { every_steps: 2 } quantize {}"}),
              Contains(HasSubstr("left out by quantize, were dropped")));
  EXPECT_THAT(notes(four), Not(Contains(common)));
  // After an outer step nothing is lost: the next loss is the same on any islands.
  const std::string met = test::ScratchFolder("local_update_met");
  LossesOf(four, 4, StrCat("checkpoint { path: \"", met, "\" }"));
  const std::string resume_met = StrCat("resume: \"", met, "\"");
  EXPECT_NEAR(LossesOf({"", "dp: 2", "diloco { every_steps: 2 }"}, 5, resume_met)[0], LossesOf(four, 5, resume_met)[0],
              1e-6);
  const std::string plain = test::ScratchFolder("local_update_plain");
  LossesOf({"", "dp: 4", ""}, 3, StrCat("checkpoint { path: \"", plain, "\" }"));
  const auto records = test::RunText(Text(four, 5, StrCat("resume: \"", plain, "\"")) + test::kInMemory);
  EXPECT_THAT(records[0].notes(), Contains(HasSubstr("the checkpoint has no state of outer steps")));
}

}  // namespace local_update_integration_test
}  // namespace twofold
