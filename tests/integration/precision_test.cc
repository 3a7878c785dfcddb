// Element types of parameters, gradients, what travels and what is kept; the scale of the loss; and clipping.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace precision_test {

using test::kInMemory;
using test::Losses;
using test::RunText;
using test::TinyModel;

constexpr char kTinyCnn[] =
    "model { cnn { height: 8 width: 8 widths: [6, 8] blocks: [1, 1] classes: 5 sync_batch_norm: true } }\ndata { "
    "synthetic { samples: 96 } }\n";
constexpr char kSgd[] = " optimizer { sgd { lr: 0.1 momentum: 0.9 } }";

std::string Text(const std::string& model, int ranks, int micro_batch, int steps, const std::string& train) {
  return StrCat(model, "train { steps: ", steps, " global_batch: 12 micro_batch: ", micro_batch, " seed: 3 ", train,
                " }\nparallel { dp: ", ranks, " bucket_mib: 0.002 }\n");
}
std::vector<double> OneProcess(const std::string& model, int steps, const std::string& train) {
  return Losses(RunText(Text(model, 1, 12, steps, train) + kInMemory)[0]);
}
double LargestError(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}
// The note on skipped steps; empty without one.
std::string Skipped(const report::RankRecord& record) {
  for (const std::string& note : record.notes()) {
    if (note.find("were skipped") != std::string::npos) return note;
  }
  return "";
}

// ---- Half precision ----
struct Kind {
  const char* name;
  std::string model, train;
};
const std::vector<Kind>& Kinds() {
  static const auto* kinds = new std::vector<Kind>{
      {"Gpt", test::kTinyGpt, "optimizer { adamw { lr: 3e-3 } }"},
      {"Llama", test::kTinyLlama, "optimizer { adamw { lr: 3e-3 } }"},
      {"Cnn", kTinyCnn, " optimizer { sgd { lr: 0.02 momentum: 0.9 } }"},
  };
  return *kinds;
}

class HalfPrecision : public ::testing::TestWithParam<std::tuple<int, int>> {};

// F16 with a dynamic scale that skips no step, 30 steps: within 1 % of F32 in one process; ranks among each other to
// the bit.
TEST_P(HalfPrecision, TrainsLikeSinglePrecisionInOneProcess) {
  const auto [ranks, kind] = GetParam();
  const Kind& k = Kinds()[static_cast<size_t>(kind)];
  const int parts = k.model == kTinyCnn ? 1 : 2;  // micro-batches are of no account but to batch norms
  const auto exact = OneProcess(k.model, 30, k.train);
  const auto records =
      RunText(Text(k.model, ranks, 12 / ranks / parts, 30,
                   k.train + " clip_norm: 0.25 precision { parameter: F16 loss_scale { dynamic { initial: 1024 } } }") +
              kInMemory);
  EXPECT_EQ(Skipped(records[0]), "");
  const auto clipped = OneProcess(k.model, 30, k.train + " clip_norm: 0.25");
  EXPECT_LT(LargestError(Losses(records[0]), clipped), 1e-2);
  EXPECT_NE(exact, clipped) << "clipping does nothing here";
  for (const auto& record : records) EXPECT_EQ(Losses(record), Losses(records[0])) << record.rank();
  EXPECT_LT(Losses(records[0]).back(), 0.98 * Losses(records[0]).front()) << "nothing was learned";
}

INSTANTIATE_TEST_SUITE_P(Models, HalfPrecision,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(0, 1, 2)),
                         [](const auto& info) {
                           return StrCat(Kinds()[static_cast<size_t>(std::get<1>(info.param))].name,
                                         std::get<0>(info.param));
                         });

// 2^38 and 2^24 overflow, 2^10 does not: exactly the first two steps leave the parameters as they are. A run that
// learns nothing has the losses of untouched parameters.
TEST(LossScaling, SkipsExactlyTheStepsThatOverflowAndGoesOn) {
  const std::string half =
      "precision { parameter: F16 loss_scale { dynamic { initial: 274877906944 backoff: 0.00006103515625 "
      "growth_interval: 4 } } }";
  struct Layout {
    int ranks;
    const char* sharding;
  };
  for (const Layout& layout : {Layout{1, "NO_SHARD"}, Layout{3, "NO_SHARD"}, Layout{3, "ZERO_1"}, Layout{2, "ZERO_2"},
                               Layout{3, "ZERO_3"}, Layout{4, "HYBRID_SHARD shard_group: 2"}}) {
    SCOPED_TRACE(StrCat(layout.ranks, " ranks, ", layout.sharding));
    for (const char* clip : {"", " clip_norm: 1"}) {
      const auto text = [&](const std::string& train) {
        return StrCat(test::kTinyGpt, "train { steps: 12 global_batch: 36 micro_batch: 3 seed: 3 ", train, clip,
                      " }\nparallel { dp: ", layout.ranks, " sharding: ", layout.sharding, " }\n", kInMemory);
      };
      const auto records = RunText(text("optimizer { adamw { lr: 3e-3 } } " + half));
      const auto untouched =
          Losses(RunText(text("optimizer { adamw { lr: 1e-30 weight_decay: 0 } } precision { parameter: F16 }"))[0]);
      for (const auto& record : records) {
        const auto losses = Losses(record);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(losses[i], untouched[i]) << i;
        EXPECT_NE(losses[3], untouched[3]);
        EXPECT_LT(losses.back(), 0.99 * untouched.back());
        EXPECT_EQ(Skipped(record).find("2 of 12 steps were skipped"), 0u) << Skipped(record);
      }
    }
  }
}

// Scales of powers of two lose no bit in F32: what is multiplied in is divided out. With one rank nothing travels in
// F16.
TEST(LossScaling, IsDividedOutAgain) {
  for (const char* train : {"optimizer { adamw { lr: 3e-3 } }", "optimizer { sgd { lr: 0.1 } }"}) {
    for (const char* clip : {"", " clip_norm: 0.5"}) {
      const std::string rest = StrCat(train, clip);
      const auto plain = OneProcess(test::kTinyGpt, 8, rest);
      for (const char* scale : {"fixed: 1024", "dynamic { initial: 256 growth_interval: 2 }"}) {
        const auto scaled = OneProcess(
            test::kTinyGpt, 8, StrCat(rest, " precision { gradient: F32 reduce: F16 loss_scale { ", scale, " } }"));
        EXPECT_EQ(scaled, plain) << rest << " " << scale;
      }
    }
  }
}

// Gradients at the lower end of what F16 holds vanish, or keep a bit or two; 1,024 times the loss brings them up.
TEST(LossScaling, KeepsSmallGradients) {
  const std::string train = "optimizer { adamw { lr: 1e-3 eps: 1e-12 } }";
  const std::string model = "model { mlp { inputs: 8 hidden: [24, 16] classes: 5 } }\n";
  const auto exact = OneProcess(model, 30, train);
  const auto error = [&](const std::string& scale) {
    return LargestError(
        OneProcess(model, 30, train + " precision { parameter: F32 gradient: F16 loss_scale { " + scale + " } }"),
        exact);
  };
  const double scaled = error("dynamic { initial: 1024 }"), tiny = error("fixed: 0.00001");
  EXPECT_LT(scaled, 1e-3);
  EXPECT_GT(tiny, 10 * scaled);
}

// ---- Layouts ----
// F64, 10 steps: to 1e-10 of one process, with clipping and a weight decay that leaves biases and norms alone. So the
// norm is that of the whole model, and every element of a flat shard decays as its parameter does.
TEST(Layouts, ClipAndDecayAsOneProcessDoes) {
  for (const char* model : {test::kTinyGpt, kTinyCnn}) {
    for (const char* optimizer : {"adamw { lr: 1e-2 weight_decay: 0.5 }", "adam { lr: 1e-2 weight_decay: 0.5 }",
                                  "sgd { lr: 0.1 momentum: 0.9 weight_decay: 0.3 }"}) {
      const std::string train = StrCat("optimizer { ", optimizer, " } precision { parameter: F64 } clip_norm: 0.25");
      const auto one = OneProcess(model, 10, train);
      EXPECT_LT(one.back(), one.front());
      for (const char* sharding : {"ZERO_1", "ZERO_2", "ZERO_3", "HYBRID_SHARD shard_group: 2"}) {
        const auto records = RunText(StrCat(model, "train { steps: 10 global_batch: 12 micro_batch: 3 seed: 3 ", train,
                                            " }\nparallel { dp: 4 sharding: ", sharding, " }\n", kInMemory));
        EXPECT_LT(LargestError(Losses(records[0]), one), 1e-10) << model << optimizer << " " << sharding;
      }
    }
  }
}

// ---- What runs ----
int64_t CallsOf(const report::RankRecord& record, std::string_view kernel) {
  int64_t calls = 0;
  for (const report::KernelTotal& k : record.kernels()) {
    if (k.kernel() == kernel) calls += k.count();
  }
  return calls;
}
int64_t BytesReduced(const report::RankRecord& record) {
  int64_t bytes = 0;
  for (const report::Collective& c : record.collectives()) {
    if (c.operation() == "all_reduce") bytes += c.bytes();
  }
  return bytes;
}

TEST(Extras, AreOnlyWhereTheyAreAskedFor) {
  const auto run = [](const std::string& train) {
    return RunText(Text(test::kTinyGpt, 2, 6, 4, train) + kInMemory)[0];
  };
  const auto plain = run(""), clipped = run("clip_norm: 1"),
             fixed = run("precision { parameter: F16 loss_scale { fixed: 512 } }"),
             dynamic = run("precision { parameter: F16 }");
  for (const auto* record : {&plain, &fixed}) {
    EXPECT_EQ(CallsOf(*record, "squared_norm"), 0);
    EXPECT_EQ(CallsOf(*record, "clip_factor"), 0);
  }
  for (const auto* record : {&clipped, &dynamic}) {
    EXPECT_GT(CallsOf(*record, "squared_norm"), 0);
    EXPECT_EQ(CallsOf(*record, "clip_factor"), 1);
  }
  for (const auto* record : {&plain, &clipped, &fixed, &dynamic}) EXPECT_EQ(CallsOf(*record, "scale"), 0);
  EXPECT_EQ(BytesReduced(clipped), BytesReduced(plain));
  EXPECT_EQ(BytesReduced(dynamic), BytesReduced(fixed) + 4 * 4) << "the norm travels, once a step";
}

// ---- Gradients that travel in another type ----
TEST(ReduceType, NarrowHalvesTheBytesAndTrainsAlike) {
  for (const char* wire : {"BF16", "F16 loss_scale { dynamic { initial: 1024 } }"}) {  // so low that no step is skipped
    const auto run = [&](const std::string& train) {
      return RunText(Text(test::kTinyGpt, 3, 2, 30, train + kSgd) + kInMemory)[0];
    };
    const auto wide = run("precision { gradient: F32 }"),
               narrow = run(StrCat("precision { gradient: F32 reduce: ", wire, " }"));
    EXPECT_NE(Losses(narrow), Losses(wide));
    EXPECT_LT(LargestError(Losses(narrow), Losses(wide)), 2e-3) << wire;
    const int64_t of_loss = 30 * 4, of_norm = wire == std::string_view("BF16") ? 0 : 30 * 4;
    EXPECT_EQ(2 * (BytesReduced(narrow) - of_loss - of_norm), BytesReduced(wide) - of_loss);
  }
}

// ---- The simulator ----
// It skips the steps that a measured run skips, too; without any, promises_test.cc has both.
TEST(PrecisionToTheBit, OfSkippedSteps) {
  const std::string mix =
      "precision { parameter: F16 gradient: F32 loss_scale { dynamic { initial: 137438953472 backoff: 0.0009765625 "
      "growth_interval: 2 } } } clip_norm: 1";
  for (const char* model : {test::kTinyGpt, test::kTinyLlama, kTinyCnn}) {
    const std::string text = Text(model, 3, 2, 8, mix);
    const auto simulated = RunText(text + test::Simulated("REAL")), in_memory = RunText(text + kInMemory);
    for (size_t r = 0; r < in_memory.size(); ++r) {
      EXPECT_EQ(Losses(simulated[r]), Losses(in_memory[r])) << "rank " << r;
      EXPECT_NE(Skipped(in_memory[r]), "");
      EXPECT_EQ(Skipped(simulated[r]), Skipped(in_memory[r]));
      EXPECT_NE(in_memory[r].steps(0).loss(), in_memory[r].steps(7).loss());
    }
  }
}

}  // namespace precision_test
}  // namespace twofold
