// Recomputed activations: the same bits as kept ones, in every order that a schedule may have, for less memory and more
// FLOPs.
#include "strategies/models/recompute.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/nn/loss.h"
#include "strategies/from_spec.h"
#include "tests/integration/run_spec.h"
#include "tests/unit/nn/symbolic_device.h"
#include "tests/unit/nn/testing.h"

namespace twofold {
namespace recompute_test {

using test::Losses;
using test::RunText;
using test::TinyModel;

// Three blocks each, with every random draw and every buffer that there is.
constexpr TinyModel kModels[] = {
    {"Gpt", "model { gpt { layers: 3 hidden: 8 heads: 2 sequence: 5 dropout: 0.2 } }\n"},
    {"GptStored", "model { gpt { layers: 3 hidden: 8 heads: 2 sequence: 5 dropout: 0.2 } dropout_masks: STORED }\n"},
    {"GptUnfused",
     "model { gpt { layers: 3 hidden: 8 heads: 2 sequence: 5 dropout: 0.2 attention_dropout: 0.3 } attention: UNFUSED "
     "}\n"},
    {"GptUnfusedStored",
     "model { gpt { layers: 3 hidden: 8 heads: 2 sequence: 5 dropout: 0.2 attention_dropout: 0.3 } attention: UNFUSED "
     "dropout_masks: STORED }\n"},
    {"Llama", "model { llama { layers: 3 hidden: 8 heads: 4 kv_heads: 2 ffn: 12 sequence: 5 } }\n"},
    {"LlamaUnfused",
     "model { llama { layers: 3 hidden: 8 heads: 4 kv_heads: 2 ffn: 12 sequence: 5 } attention: UNFUSED }\n"},
    {"Cnn",
     "model { cnn { height: 6 width: 7 channels: 2 widths: [3, 4] blocks: [1, 2] classes: 5 } }\ndata { synthetic { "
     "samples: 96 } }\n"},
};
bool Unfused(const TinyModel& model) { return std::string_view(model.model).find("UNFUSED") != std::string_view::npos; }

// "" and everything that may be recomputed of this model.
std::vector<std::string> Recomputations(const TinyModel& model) {
  std::vector<std::string> all;
  for (const std::string_view part : {"FULL", "SELECTIVE", "FULL early_stop: true"}) {
    if (part == "SELECTIVE" && !Unfused(model)) continue;
    for (int every : {1, 2, 3})
      all.push_back(StrCat("activation_checkpointing { every: ", every, " recompute: ", part, " }"));
  }
  return all;
}

// The whole model, with wrappers around what the spec says.
std::unique_ptr<nn::Module> MakeRecomputing(const spec::Spec& spec, DType type) {
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  const nn::ModelPart whole = nn::ModelPart::Whole(model->shape().layers);
  return std::move(MakeStage(*model, type, {&whole, 1}, nn::OneRank(), RecomputationOf(spec.train()))[0]);
}

class Recomputed : public ::testing::TestWithParam<TinyModel> {};

// ---- One rank's modules ----
enum class Order { kTogether, kHalves, kInFlight };

struct Result {
  std::vector<std::vector<double>> values;  // losses, gradients, buffers
  Bytes kept;                               // after both micro-batches went forward
  bool operator==(const Result& other) const { return values == other.values; }
};

// Two micro-batches forward, then back in `order`, when the context stands elsewhere.
Result Pass(const std::string& text, Order order) {
  const spec::Spec spec = test::Resolve(text);
  const ModelInput input = ModelOf(spec.model())->input();
  test::Cpu cpu;
  const std::unique_ptr<nn::Module> model = MakeRecomputing(spec, DType::kF64);
  test::Materialize(cpu.ctx, *model);
  test::Scatter(*model, 0.3);
  const Bytes before = cpu.Live(Category::kActivations);
  Result result;
  nn::Saved saved[2], loss[2];
  for (int m = 0; m < 2; ++m) {
    const uint64_t seed = 20 + static_cast<uint64_t>(m);
    cpu.ctx.step = 4, cpu.ctx.micro_batch = m;
    const bool words = input.kind == ModelInput::kTokens;
    const Tensor x = words ? test::RandomIds(cpu, Shape{2, input.length}, input.classes, seed)
                           : test::Random(cpu, Shape{2, input.height, input.width, input.channels}, seed);
    const Tensor targets = test::RandomIds(cpu, words ? x.shape() : Shape{2}, input.classes, seed + 10);
    result.values.push_back(test::Values(
        nn::SoftmaxCrossEntropy::Forward(cpu.ctx, model->Forward(cpu.ctx, x, saved[m]), targets, loss[m])));
  }
  result.kept = cpu.Live(Category::kActivations) - before;
  cpu.ctx.step = 5, cpu.ctx.micro_batch = 7;
  for (int i = 0; i < 2; ++i) {
    const int m = order == Order::kInFlight ? 1 - i : i;
    Tensor dy = nn::SoftmaxCrossEntropy::Backward(cpu.ctx, loss[m]);
    if (order == Order::kTogether) {
      model->Backward(cpu.ctx, std::move(dy), saved[m]);
    } else {
      model->BackwardInput(cpu.ctx, std::move(dy), saved[m]);
      if (order == Order::kHalves) model->BackwardWeights(cpu.ctx, saved[m]);
    }
  }
  if (order == Order::kInFlight) {
    for (nn::Saved& s : saved) model->BackwardWeights(cpu.ctx, s);
  }
  EXPECT_TRUE(saved[0].empty() && saved[1].empty());
  EXPECT_EQ(cpu.Live(Category::kActivations), before);
  for (auto& gradient : test::Gradients(*model)) result.values.push_back(std::move(gradient));
  for (const nn::Parameter* b : model->Buffers()) result.values.push_back(test::Values(b->data()));
  return result;
}

TEST_P(Recomputed, GivesTheBitsOfKeptOnesInEveryOrder) {
  for (const Order order : {Order::kTogether, Order::kHalves, Order::kInFlight}) {
    const Result kept = Pass(GetParam().model, order);
    for (const std::string& recomputation : Recomputations(GetParam())) {
      const Result recomputed = Pass(StrCat(GetParam().model, "train { ", recomputation, " }"), order);
      EXPECT_EQ(recomputed, kept) << recomputation << ", order " << static_cast<int>(order);
      EXPECT_LT(recomputed.kept, kept.kept) << recomputation;
    }
  }
}

// ---- Through the trainer ----
std::vector<double> ValidationLosses(const report::RankRecord& record) {
  std::vector<double> losses;
  for (const report::Validation& v : record.validations()) losses.push_back(v.loss());
  return losses;
}

// Two ranks, two micro-batches a step, in f32 and bf16, evaluated in between.
void ExpectTrainsAlike(const TinyModel& model, const std::vector<std::string>& recomputations) {
  for (const char* precision : {"F32", "BF16"}) {
    const auto run = [&](const std::string& recomputation) {
      return RunText(StrCat(model.model,
                            "train { steps: 6 micro_batch: 2 global_batch: 8 clip_norm: 1 precision { parameter: ",
                            precision, " } validation { every_steps: 3 samples: 5 } ", recomputation,
                            " }\nparallel { dp: 2 bucket_mib: 0.01 }\n", test::kInMemory));
    };
    const auto kept = run("");
    ASSERT_EQ(ValidationLosses(kept[0]).size(), 2u);
    for (const std::string& recomputation : recomputations) {
      if (precision == std::string_view("BF16") && &recomputation != &recomputations.back())
        continue;  // one way each is enough
      const auto recomputed = run(recomputation);
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(Losses(recomputed[r]), Losses(kept[r])) << precision << " " << recomputation;
        EXPECT_EQ(ValidationLosses(recomputed[r]), ValidationLosses(kept[r])) << precision << " " << recomputation;
      }
    }
  }
}

TEST_P(Recomputed, TrainsAlike) { ExpectTrainsAlike(GetParam(), Recomputations(GetParam())); }

// Statistics over the ranks are exchanged once more, in one order on all of them.
TEST(RecomputedCnn, TrainsAlikeWithStatisticsOfAllRanks) {
  constexpr TinyModel kSync = {"CnnSync",
                               "model { cnn { height: 8 width: 9 channels: 1 widths: [4, 6] blocks: [1, 2] classes: 5 "
                               "stem: IMAGENET sync_batch_norm: true } }\n"
                               "data { synthetic { samples: 96 } }\n"};
  ExpectTrainsAlike(kSync, Recomputations(kSync));
}

// A unit around a recomputed block, and units within it: parameters are there when they are needed, are gathered no
// more often than without, and none is left behind.
TEST(RecomputedUnits, TrainAlikeAndGatherAsOften) {
  for (const char* wrap :
       {"", "wrap { module: \"mlp\" }", "wrap { min_parameters: 100 }",
        "wrap { min_parameters: 100 } reshard_after_forward: false", "wrap { module: \"linear\" } prefetch: 3"}) {
    const auto run = [&](const std::string& recomputation) {
      return RunText(StrCat(
          kModels[3].model, "train { steps: 2 micro_batch: 2 global_batch: 8 validation { every_steps: 2 samples: 5 } ",
          recomputation, " }\nparallel { dp: 2 sharding: FULL_SHARD ", wrap, " }\n", test::kInMemory))[0];
    };
    const report::RankRecord kept = run("");
    for (const char* recomputation :
         {"activation_checkpointing {}", "activation_checkpointing { every: 2 }",
          "activation_checkpointing { recompute: SELECTIVE }", "activation_checkpointing { early_stop: true }"}) {
      const report::RankRecord recomputed = run(recomputation);
      EXPECT_EQ(Losses(recomputed), Losses(kept)) << wrap << " " << recomputation;
      EXPECT_EQ(ValidationLosses(recomputed), ValidationLosses(kept)) << wrap << " " << recomputation;
      ASSERT_EQ(recomputed.collectives_size(), kept.collectives_size());
      for (int i = 0; i < kept.collectives_size(); ++i) {
        EXPECT_EQ(recomputed.collectives(i).operation(), kept.collectives(i).operation());
        EXPECT_EQ(recomputed.collectives(i).bytes(), kept.collectives(i).bytes())
            << kept.collectives(i).operation() << " " << wrap;
      }
    }
  }
}

// ---- What it costs ----
// A spec's model on a device without data.
struct Symbolic {
  Symbolic(const spec::Spec& spec, DType type)
      : input(ModelOf(spec.model())->input()), dtype(type), model(MakeRecomputing(spec, type)) {
    test::Materialize(ctx, *model);
    device.Forget();
  }
  Tensor Forward(int64_t samples) {
    const Tensor x = input.kind == ModelInput::kTokens
                         ? ctx.Activation(Shape{samples, input.length}, DType::kI32)
                         : ctx.Activation(Shape{samples, input.height, input.width, input.channels}, dtype);
    return model->Forward(ctx, x, saved);
  }
  int64_t Live() const { return device.Live(Category::kActivations).value(); }
  int64_t Peak() const { return device.memory().peak_by_category[static_cast<size_t>(Category::kActivations)].value(); }

  test::SymbolicDevice device;
  nn::Context ctx{.device = device, .stream = device.compute()};
  const ModelInput input;
  const DType dtype;
  const std::unique_ptr<nn::Module> model;
  nn::Saved saved;
};

double HardwareFlops(const spec::Spec& spec, int64_t samples) {
  return ModelOf(spec.model())->HardwareFlops(RecomputationOf(spec.train()), samples);
}

// FLOPs of the products that a step of `samples` launches.
double Launched(const spec::Spec& spec, int64_t samples) {
  Symbolic s(spec, DType::kF32);
  Tensor logits = s.Forward(samples);
  s.model->Backward(s.ctx, std::move(logits), s.saved);
  double flops = 0;
  for (const auto& launched : s.device.launched()) {
    const std::string_view name = launched.key.name;
    const bool product = name.find("matmul") != name.npos || name.starts_with("attention_") || name.starts_with("conv");
    if (product) flops += launched.cost.flops.value();
  }
  return flops;
}

TEST_P(Recomputed, HardwareFlopsAreWhatIsLaunched) {
  const spec::Spec kept = test::Resolve(GetParam().model);
  EXPECT_EQ(HardwareFlops(kept, 3), Launched(kept, 3));
  for (const std::string& recomputation : Recomputations(GetParam())) {
    const spec::Spec spec = test::Resolve(StrCat(GetParam().model, "train { ", recomputation, " }"));
    EXPECT_EQ(HardwareFlops(spec, 3), Launched(spec, 3)) << recomputation;
    EXPECT_GT(HardwareFlops(spec, 3), HardwareFlops(kept, 3)) << recomputation;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recomputed, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return info.param.name; });

// The closed forms of core/nn/flops.h, with the sizes of GPT-3 175B: B sequences of s, L layers of h, a vocabulary of
// V.
TEST(HardwareFlops, OfAGptAreThePublishedFormulas) {
  constexpr double kB = 64, kS = 2048, kL = 96, kH = 12288, kV = 51200, kBase = kB * kL * kS * kH * kH;
  const auto flops = [](const std::string& recomputation) {
    return HardwareFlops(
        test::Resolve(StrCat("model { gpt { layers: 96 hidden: 12288 heads: 96 vocab: 51200 sequence: 2048 } "
                             "attention: UNFUSED }\ntrain { ",
                             recomputation, " }")),
        64);
  };
  const auto expect = [](double value, double formula) { EXPECT_NEAR(value / formula, 1, 1e-12); };
  expect(flops(""), 72 * kBase * (1 + kS / (6 * kH) + kV / (12 * kH * kL)));
  expect(flops("activation_checkpointing {}"), 96 * kBase * (1 + kS / (6 * kH) + kV / (16 * kH * kL)));
  // Of a layer's 24 h^2 per token, the last product has 8.
  expect(flops("activation_checkpointing { early_stop: true }"),
         96 * kBase * (1 + kS / (6 * kH) + kV / (16 * kH * kL)) - 8 * kBase);
  expect(flops("activation_checkpointing { recompute: SELECTIVE }"),
         72 * kBase * (1 + 2 * kS / (9 * kH) + kV / (12 * kH * kL)));
}

// ---- Memory ----
spec::Spec Gpt(int layers, const std::string& recomputation) {
  return test::Resolve(StrCat("model { gpt { layers: ", layers,
                              " hidden: 64 heads: 4 sequence: 64 dropout: 0.1 attention_dropout: 0.1 } attention: "
                              "UNFUSED dropout_masks: STORED }\ntrain { ",
                              recomputation, " }"));
}
// Of two samples, in bf16: s b h, a s^2 b, and the four f32 statistics of a token.
constexpr int64_t kSbh = 2 * 64 * 64, kScores = 2 * 4 * 64 * 64, kStatistics = 4 * 4 * 2 * 64;
constexpr int64_t kAll = 34 * kSbh + 5 * kScores + kStatistics, kAllButCore = 34 * kSbh + kStatistics,
                  kInput = 2 * kSbh;

// Between forward and backward a whole block keeps its input alone; an attention core its qkv alone.
TEST(RecomputedMemory, OfAGptIsWhatBlocksKeep) {
  const auto kept = [](int layers, const std::string& recomputation) {
    Symbolic s(Gpt(layers, recomputation), DType::kBF16);
    Tensor logits = s.Forward(2);
    const int64_t live = s.Live();
    s.model->Backward(s.ctx, std::move(logits), s.saved);
    EXPECT_EQ(s.Live(), 0);
    return live;
  };
  const auto three = [&](const std::string& recomputation) { return kept(6, recomputation) - kept(3, recomputation); };
  EXPECT_EQ(three(""), 3 * kAll);
  EXPECT_EQ(three("activation_checkpointing { recompute: SELECTIVE }"), 3 * kAllButCore);
  EXPECT_EQ(three("activation_checkpointing {}"), 3 * kInput);
  EXPECT_EQ(three("activation_checkpointing { every: 3 }"), 2 * kAll + kInput);
  EXPECT_EQ(three("activation_checkpointing { every: 3 recompute: SELECTIVE }"), 2 * kAll + kAllButCore);
}

// Where no backward follows, the most at one time is less than a block keeps, however many blocks there are.
TEST(RecomputedMemory, EvaluationKeepsNothing) {
  for (const char* recomputation :
       {"", "activation_checkpointing {}", "activation_checkpointing { recompute: SELECTIVE }"}) {
    const auto peak = [&](int layers) {
      Symbolic s(Gpt(layers, recomputation), DType::kBF16);
      s.ctx.for_backward = false;
      s.Forward(2);
      EXPECT_EQ(s.Live(), 0);
      return s.Peak();
    };
    EXPECT_EQ(peak(3), peak(9)) << recomputation;
    EXPECT_LT(peak(3), kAll) << recomputation;
  }
}

TEST(RecomputedModules, HaveTheKindPathAndNamesOfWhatTheyWrap) {
  const std::string text = "model { gpt { layers: 2 hidden: 8 heads: 2 sequence: 5 } }\n";
  const spec::Spec plain = test::Resolve(text),
                   spec = test::Resolve(text + "train { activation_checkpointing { every: 2 } }");
  const auto kept = MakeRecomputing(plain, DType::kF32), model = MakeRecomputing(spec, DType::kF32);
  ASSERT_EQ(model->children().size(), kept->children().size());
  int wrapped = 0;
  for (size_t i = 0; i < model->children().size(); ++i) {
    const nn::Module &a = *model->children()[i].module, &b = *kept->children()[i].module;
    EXPECT_EQ(a.kind(), b.kind());
    EXPECT_EQ(a.path(), b.path());
    if (dynamic_cast<const nn::Recompute*>(&a) == nullptr) continue;
    ++wrapped;
    EXPECT_EQ(a.path(), "blocks.1") << "the last of each two";
  }
  EXPECT_EQ(wrapped, 1);
  const auto names = [](const nn::Module& m) {
    std::vector<std::string> all;
    for (const nn::Parameter* p : m.Parameters()) all.push_back(p->name());
    return all;
  };
  EXPECT_EQ(names(*model), names(*kept));
}

}  // namespace recompute_test
}  // namespace twofold
