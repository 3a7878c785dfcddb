// Models whose layers are split over ranks of the in-memory fabric, against the same models on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/recompute.h"
#include "core/nn/rows.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/model_parallel/layers.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace tensor_parallel_test {

constexpr int64_t kBatch = 2, kTokens = 8, kHidden = 16, kHeads = 4, kVocab = 13;

struct Case {
  std::string name;
  bool llama = false;
  int64_t kv_heads = 4;
  bool bias = true;      // llama: of queries, keys and values
  bool variant = false;  // gpt: every field in which a model may differ from GPT-2
  bool tied = true;
  bool sequence_parallel = false;
  bool unfused = false;
  double dropout = 0;  // gpt
  nn::DropoutMasks masks = nn::DropoutMasks::kRecomputed;
  bool overlap = true;
  bool backward_overlap = true;
  bool rings = false;      // with sequence_parallel
  bool later = false;      // weights' gradients after all inputs'
  bool sharded = false;    // ZeRO-2 over the ranks that share the batch
  bool recompute = false;  // blocks
  DType dtype = DType::kF64;
  int64_t layers = 2;
};

std::unique_ptr<nn::Module> MakeModel(const Case& c, nn::Layers& layers) {
  if (c.llama) {
    return std::make_unique<nn::LlamaModel>(nn::LlamaConfig{.layers = c.layers,
                                                            .hidden = kHidden,
                                                            .heads = kHeads,
                                                            .vocab = kVocab,
                                                            .kv_heads = c.kv_heads,
                                                            .ffn = 24,
                                                            .sequence = kTokens,
                                                            .qkv_bias = c.bias,
                                                            .tied = c.tied,
                                                            .unfused_attention = c.unfused,
                                                            .dtype = c.dtype},
                                            nn::ModelPart::Whole(c.layers), layers);
  }
  return std::make_unique<nn::GptModel>(
      nn::GptConfig{.layers = c.layers,
                    .hidden = kHidden,
                    .heads = kHeads,
                    .vocab = kVocab,
                    .sequence = kTokens,
                    .dropout = c.dropout,
                    .attention_dropout = c.unfused ? c.dropout : 0,
                    .unfused_attention = c.unfused,
                    .masks = c.masks,
                    .positions = c.variant ? nn::GptConfig::kRotary : nn::GptConfig::kLearned,
                    .kv_heads = c.variant ? c.kv_heads : 0,
                    .squared_relu = c.variant,
                    .parallel_blocks = c.variant,
                    .layer_norm_1p = c.variant,
                    .embedding_norm = c.variant,
                    .biases = !c.variant,
                    .tied = c.tied,
                    .dtype = c.dtype},
      nn::ModelPart::Whole(c.layers), layers);
}

// What one rank has after a step's backward pass: elements of the whole, by their places in it.
struct Outcome {
  double loss = 0, losses = 0, correct = 0, squared_norm = 0;
  struct Element {
    double value;
    bool owned;
  };
  std::map<std::string, std::map<int64_t, Element>> gradients;
  std::map<int64_t, double> logits;
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> messages;  // of the pass: count and bytes
  Bytes left, peak;   // of activations: after the pass, and most at any time
  bool kept = false;  // something saved after the pass
};

double ValueAt(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kBF16) return static_cast<float>(t.data<BF16>()[i]);
  return t.dtype() == DType::kF64 ? t.data<double>()[i] : t.data<float>()[i];
}
void SetValue(const Tensor& t, int64_t i, double v) {
  if (t.dtype() == DType::kF64)
    t.data<double>()[i] = v;
  else if (t.dtype() == DType::kBF16)
    t.data<BF16>()[i] = BF16(static_cast<float>(v));
  else
    t.data<float>()[i] = static_cast<float>(v);
}

class Rank {
 public:
  Rank(RankContext& ctx, const Case& c, int tp)
      : c_(c),
        rank_(ctx),
        nn_{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 5},
        mesh_(ctx.world(), {.dp = ctx.world_size() / tp, .tp = tp}),
        layers_(mesh_, {.sequence_parallel = c.sequence_parallel,
                        .overlap = c.overlap,
                        .tensor_backward_overlap = c.backward_overlap,
                        .tensor_overlap = c.rings,
                        .kv_heads = c.llama || c.variant ? c.kv_heads : 0}) {
    nn::Layers& layers = tp > 1 ? static_cast<nn::Layers&>(layers_) : nn::OneRank();
    loss_ = layers.MakeLoss(kVocab);
    std::unique_ptr<nn::Module> model = MakeModel(c, layers);
    model->Finalize();
    for (size_t i = 0; c.recompute && i < model->children().size(); ++i) {
      if (model->children()[i].module->kind() != "transformer_block") continue;
      model->WrapChild(
          i, [](std::unique_ptr<nn::Module> block) { return std::make_unique<nn::Recompute>(std::move(block)); });
    }
    const DType gradient = ops::AccumulationType(c.dtype);
    const ReplicaGroups replicas(mesh_.Group(MeshGroup::kReplicas),
                                 {{kTensorTag, &layers_.tensor_sums()}, {kKeyValueTag, layers_.key_value_sums()}});
    if (c.sharded) {
      layout_ = std::make_unique<ShardedDataParallel>(nn_, OneChunk(std::move(model)), replicas,
                                                      ShardedOptions{.stage = ShardedOptions::kGradients,
                                                                     .wrap = WrapByKind("transformer_block"),
                                                                     .gradient = gradient,
                                                                     .reduce = gradient});
    } else {
      layout_ = std::make_unique<DistributedDataParallel>(nn_, OneChunk(std::move(model)), replicas,
                                                          DdpOptions{.gradient = gradient});
    }
    if (!c.sharded) Perturb();
  }

  Outcome Step() {
    Outcome out;
    GradientNorm norm(nn_, *layout_, mesh_.Group(MeshGroup::kModel));
    const auto before = Messages();
    const Bytes live = Live();
    layout_->BeginStep();
    layout_->BeginMicroBatch(true);
    Pass(out);
    out.left = Live() - live;
    out.peak = rank_.memory().peak_by_category[static_cast<size_t>(Category::kActivations)];
    layout_->FinishGradients();
    for (const auto& [key, now] : Messages()) {
      if (key.first == layers_.tensor_sums().name() &&
          layers_.tensor_sums().name() != mesh_.Group(MeshGroup::kTp).name())
        continue;  // sums of gradients
      const auto was = before.find(key);
      const auto sent =
          was == before.end() ? now : std::make_pair(now.first - was->second.first, now.second - was->second.second);
      if (sent.first > 0) out.messages[key] = sent;
    }
    const Tensor squares = norm.Squared();
    out.squared_norm = ValueAt(squares, 0);
    Collect(out);
    return out;
  }

 private:
  // Biases and norms, too, must matter: every element gets a value by its place in the whole.
  void Perturb() {
    for (nn::Parameter* p : layout_->Parameters()) {
      const bool gain = p->name().find("norm") != std::string::npos && p->name().find("weight") != std::string::npos;
      p->ForParts(0, p->numel(), [&](const nn::Parameter::Stretch& stretch) {
        if (stretch.part.padding) return;
        for (int64_t i = 0; i < stretch.where.count; ++i) {
          const auto index = static_cast<uint64_t>(stretch.where.IndexOf(i));
          SetValue(p->data(), stretch.local + i, (gain ? 1 : 0) + 0.3 * NormalAt(MakeKey(7, p->name()), index));
        }
      });
    }
  }

  void Pass(Outcome& out) {
    const int64_t replica = mesh_.Coordinate(Axis::kDp);
    Tensor ids = nn_.Activation(Shape{kBatch, kTokens}, DType::kI32),
           targets = nn_.Activation(Shape{kBatch, kTokens}, DType::kI32);
    for (int64_t i = 0; i < kBatch * kTokens; ++i) {
      ids.data<int32_t>()[i] = static_cast<int32_t>((7 * i + 3 + i * i + 5 * replica) % kVocab);
      targets.data<int32_t>()[i] = static_cast<int32_t>((5 * i + 1 + 2 * replica) % kVocab);
    }
    nn_.micro_batch = replica;
    nn::Saved saved, saved_loss;
    Tensor logits = layout_->chunks()[0]->Forward(nn_, std::exchange(ids, Tensor()), saved);
    CollectLogits(logits, out);
    out.correct = Count(logits, targets);
    const Tensor losses = loss_->Losses(nn_, logits, targets);
    for (int64_t i = 0; i < losses.numel(); ++i) out.losses += ValueAt(losses, i) * static_cast<double>(i + 1);
    const Tensor loss =
        loss_->Forward(nn_, std::exchange(logits, Tensor()), std::exchange(targets, Tensor()), saved_loss);
    out.loss = ValueAt(loss, 0);
    Tensor dlogits = loss_->Backward(nn_, saved_loss, 1);
    if (c_.later) {
      layout_->chunks()[0]->BackwardInput(nn_, std::move(dlogits), saved);
      layout_->chunks()[0]->BackwardWeights(nn_, saved);
    } else {
      layout_->chunks()[0]->Backward(nn_, std::move(dlogits), saved);
    }
    out.kept = !saved.empty() || !saved_loss.empty();
  }

  double Count(const Tensor& logits, const Tensor& targets) {
    const Tensor total = nn_.Activation(Shape{1}, ops::AccumulationType(c_.dtype));
    SetValue(total, 0, 2);  // it is added to
    loss_->CountCorrect(nn_, logits, targets, total);
    return ValueAt(total, 0);
  }

  // The padding is left out.
  void CollectLogits(const Tensor& logits, Outcome& out) {
    const ProcessGroup& group = mesh_.Group(MeshGroup::kTp);
    const int64_t columns = logits.dim(-1), first = group.rank() * columns;
    for (int64_t i = 0; i < logits.numel(); ++i) {
      const int64_t column = first + i % columns;
      if (column < kVocab) out.logits[i / columns * kVocab + column] = ValueAt(logits, i);
    }
  }

  void Collect(Outcome& out) {
    for (const optim::Slice& slice : layout_->Slices()) {
      optim::ForStretches(slice.parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
        if (stretch.part.padding) return;
        for (int64_t i = 0; i < stretch.where.count; ++i)
          out.gradients[p.name()][stretch.where.IndexOf(i)] = {ValueAt(slice.gradient, at + i), stretch.part.owned};
      });
    }
  }

  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> Messages() const {
    std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> messages;
    for (const auto& [key, entry] : rank_.communication().entries()) {
      messages[{key.first, std::string(KindName(key.second))}] = {entry.count, entry.bytes.value()};
    }
    return messages;
  }
  Bytes Live() const { return rank_.memory().live_by_category[static_cast<size_t>(Category::kActivations)]; }

  const Case c_;
  RankContext& rank_;
  nn::Context nn_;
  DeviceMesh mesh_;
  ParallelLayers layers_;
  std::unique_ptr<nn::Loss> loss_;
  std::unique_ptr<ParameterLayout> layout_;
};

std::vector<Outcome> Train(const Case& c, int ranks, int tp) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  test::ExpectOnRanks(ranks, [&](RankContext& ctx) -> std::string {
    outcomes[static_cast<size_t>(ctx.rank())] = Rank(ctx, c, tp).Step();
    return "";
  });
  return outcomes;
}

// Largest difference, over the largest value there is.
void ExpectNear(const std::map<int64_t, double>& got, const std::map<int64_t, double>& want, double tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0, difference = 0;
  for (const auto& [place, value] : want) {
    ASSERT_TRUE(got.contains(place)) << what << " lacks element " << place;
    largest = std::max(largest, std::abs(value));
    difference = std::max(difference, std::abs(value - got.at(place)));
  }
  EXPECT_LE(difference, tolerance * std::max(largest, 1e-3)) << what;
}

std::map<int64_t, double> Values(const std::map<int64_t, Outcome::Element>& elements) {
  std::map<int64_t, double> values;
  for (const auto& [place, element] : elements) values[place] = element.value;
  return values;
}

// The owned elements of all ranks are each element of the whole once; and who has a copy of one has its value.
void ExpectWhole(const std::vector<Outcome>& ranks, const Outcome& whole, double tolerance) {
  for (const auto& [name, elements] : whole.gradients) {
    std::map<int64_t, double> owned;
    for (const Outcome& rank : ranks) {
      if (!rank.gradients.contains(name)) continue;
      for (const auto& [place, element] : rank.gradients.at(name)) {
        if (!element.owned) continue;
        EXPECT_TRUE(owned.emplace(place, element.value).second) << name << " element " << place << " has two owners";
      }
    }
    ExpectNear(owned, Values(elements), tolerance, name);
    for (const Outcome& rank : ranks) {
      if (!rank.gradients.contains(name)) continue;
      for (const auto& [place, element] : rank.gradients.at(name))
        EXPECT_EQ(element.value, owned[place]) << name << " element " << place;
    }
  }
}

class TensorParallel : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(TensorParallel, DoesWhatOneRankDoes) {
  const auto& [c, ranks] = GetParam();
  const double tolerance = c.dtype == DType::kF64 ? 1e-10 : c.dtype == DType::kF32 ? 1e-5 : 4e-2;
  const Outcome one = Train(c, 1, 1)[0];
  const std::vector<Outcome> split = Train(c, ranks, ranks);
  std::map<int64_t, double> logits;
  for (const Outcome& rank : split) {
    EXPECT_NEAR(rank.loss, one.loss, tolerance * one.loss);
    EXPECT_NEAR(rank.losses, one.losses, tolerance * one.losses);
    if (c.dtype != DType::kBF16) {
      EXPECT_EQ(rank.correct, one.correct);
    }
    EXPECT_NEAR(rank.squared_norm, one.squared_norm, tolerance * one.squared_norm);
    EXPECT_EQ(rank.squared_norm, split[0].squared_norm);
    EXPECT_EQ(rank.left, one.left) << "activations left over";
    EXPECT_FALSE(rank.kept);
    EXPECT_LT(rank.peak, one.peak) << "activations kept longer than on one rank";
    logits.insert(rank.logits.begin(), rank.logits.end());
  }
  ExpectNear(logits, one.logits, tolerance, "logits");
  ExpectWhole(split, one, tolerance);
}

std::vector<Case> Cases() {
  using nn::DropoutMasks;
  return {
      {.name = "gpt"},
      {.name = "gpt_untied_f32", .tied = false, .dtype = DType::kF32},
      {.name = "gpt_in_turn", .overlap = false, .backward_overlap = false},
      {.name = "gpt_beside_backward_alone", .overlap = false},
      {.name = "gpt_later", .later = true},
      {.name = "gpt_dropout", .unfused = true, .dropout = 0.3},
      {.name = "gpt_sequence", .sequence_parallel = true},
      {.name = "gpt_sequence_f32", .tied = false, .sequence_parallel = true, .dtype = DType::kF32},
      {.name = "gpt_sequence_in_turn", .sequence_parallel = true, .overlap = false, .backward_overlap = false},
      {.name = "gpt_rings", .sequence_parallel = true, .rings = true},
      {.name = "gpt_rings_bf16", .sequence_parallel = true, .rings = true, .dtype = DType::kBF16},
      {.name = "gpt_rings_in_turn",
       .sequence_parallel = true,
       .overlap = false,
       .backward_overlap = false,
       .rings = true},
      {.name = "gpt_rings_later_recomputed",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .rings = true,
       .later = true,
       .recompute = true},
      {.name = "llama_rings_kv_2",
       .llama = true,
       .kv_heads = 2,
       .bias = false,
       .sequence_parallel = true,
       .rings = true},
      {.name = "gpt_sequence_later", .sequence_parallel = true, .later = true},
      {.name = "gpt_sequence_bf16", .sequence_parallel = true, .dtype = DType::kBF16},
      {.name = "gpt_recomputed", .unfused = true, .dropout = 0.3, .recompute = true},
      {.name = "gpt_sequence_recomputed_later",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .later = true,
       .recompute = true},
      {.name = "gpt_sequence_dropout", .sequence_parallel = true, .unfused = true, .dropout = 0.3},
      {.name = "gpt_sequence_dropout_stored",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .masks = DropoutMasks::kStored},
      {.name = "gpt_variant", .kv_heads = 2, .variant = true, .dropout = 0},
      {.name = "gpt_variant_sequence_later", .kv_heads = 4, .variant = true, .sequence_parallel = true, .later = true},
      {.name = "llama", .llama = true, .bias = false, .tied = false},
      {.name = "llama_kv_1", .llama = true, .kv_heads = 1},
      {.name = "llama_kv_2", .llama = true, .kv_heads = 2, .tied = false},
      {.name = "llama_kv_1_sequence_later", .llama = true, .kv_heads = 1, .sequence_parallel = true, .later = true},
      {.name = "llama_kv_2_sequence",
       .llama = true,
       .kv_heads = 2,
       .bias = false,
       .sequence_parallel = true,
       .unfused = true},
  };
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel,
                         ::testing::Combine(::testing::ValuesIn(Cases()), ::testing::Values(2, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
                         });

// ZeRO-2 over two replicas of two (or four) ranks that share heads and split rows: sums, norms and shards together.
TEST(TensorParallel, SumsAndNormsOfShards) {
  Case c{.name = "sharded", .llama = true, .kv_heads = 1, .sequence_parallel = true, .sharded = true};
  const std::vector<Outcome> replicas = Train(c, 2, 1), split = Train(c, 4, 2);
  Outcome whole;  // two replicas without tensor parallelism, put together
  for (const Outcome& rank : replicas)
    for (const auto& [name, elements] : rank.gradients) whole.gradients[name].insert(elements.begin(), elements.end());
  ExpectWhole(split, whole, 1e-10);
  for (const Outcome& rank : split)
    EXPECT_NEAR(rank.squared_norm, replicas[0].squared_norm, 1e-10 * replicas[0].squared_norm);
}

// Every element of the whole is at one place of one rank, in the order that zig-zag chunks, then rows along tp, have
// it.
TEST(ResidualRows, ArePartsOfTheWhole) {
  constexpr int64_t kSamples = 3, kLength = 24, kWidth = 5;
  for (const int cp : {1, 2, 3}) {
    for (const int tp : {1, 2, 4}) {
      std::map<int64_t, int> found;
      for (int i = 0; i < cp; ++i) {
        std::vector<int64_t> rows;  // of the whole, along tp
        for (int64_t sample = 0; sample < kSamples; ++sample) {
          const int64_t chunk = kLength / (2 * cp);
          for (const int64_t number : {int64_t{i}, int64_t{2 * cp - 1 - i}})
            for (int64_t row = 0; row < chunk; ++row) rows.push_back(sample * kLength + number * chunk + row);
        }
        for (int r = 0; r < tp; ++r) {
          const ResidualRows place{.chunks = {.rank = i, .ranks = cp}, .tp = tp, .r = r};
          const Shape local{kSamples, kLength / cp / tp, kWidth};
          const ops::IndexMap positions = place.PositionsOf(local), elements = place.ElementsOf(local);
          for (int64_t e = 0; e < local.numel(); ++e) {
            const int64_t row = rows[static_cast<size_t>(r * local[0] * local[1] + e / kWidth)];
            ASSERT_EQ(elements.Of(e), row * kWidth + e % kWidth) << cp << " " << tp << " element " << e;
            ASSERT_EQ(positions.Of(e / kWidth), row % kLength) << cp << " " << tp << " element " << e;
            ++found[elements.Of(e)];
          }
        }
      }
      EXPECT_EQ(found.size(), static_cast<size_t>(kSamples * kLength * kWidth));
    }
  }
}

// ---- What is sent ----

using Traffic = std::pair<int64_t, int64_t>;  // count and bytes

// Of one layer of a model, along tp: what a model with one more sends more. Bytes are those of the whole tensor, of
// which an all-reduce on a ring sends 2 (n - 1) / n, an all-gather and a reduce-scatter (n - 1) / n.
std::map<std::string, Traffic> OfALayer(Case c, int ranks) {
  std::map<std::string, Traffic> traffic;
  for (const int64_t sign : {-1, 1}) {
    c.layers = sign < 0 ? 1 : 2;
    const auto trained = Train(c, ranks, ranks);
    for (const auto& [key, sent] : trained[0].messages) {
      traffic[key.second].first += sign * sent.first;
      traffic[key.second].second += sign * sent.second;
    }
  }
  std::erase_if(traffic, [](const auto& kind) { return kind.second == Traffic(0, 0); });
  return traffic;
}

constexpr int64_t kActivation = kBatch * kTokens * kHidden * 8;  // b s h, in f64

// Shoeybi et al. 2019, section 3: "two all-reduces in the forward path and two in the backward path" of a layer, of b s
// h each.
TEST(TensorParallel, SumsFourActivationsALayer) {
  for (const bool llama : {false, true}) {
    const auto traffic = OfALayer({.name = "", .llama = llama}, 4);
    EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_reduce", {4, 4 * kActivation}}})) << llama;
  }
}

// Korthikanti et al. 2022, section 4.2.2: "four all-gathers and four reduce-scatters in a single forward and backward
// pass", which is as much as four all-reduces; and two more all-gathers, of the inputs of either column-parallel layer,
// which were not kept.
TEST(TensorParallel, GathersAndScattersAsMuchUnderSequenceParallelism) {
  const auto traffic = OfALayer({.name = "", .sequence_parallel = true}, 2);
  EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_gather", {6, 6 * kActivation}},
                                                     {"reduce_scatter", {4, 4 * kActivation}}}));
}

// Around the ring, in n - 1 messages of 1 / n each: the gathers before both column-parallel products of the forward
// pass and before both row-parallel ones of the backward pass, and the sums of the forward pass. The other collectives
// are hidden behind products that do not depend on them.
TEST(TensorParallel, PassesPartsAroundTheRing) {
  for (const int n : {2, 4}) {
    const auto traffic = OfALayer({.name = "", .sequence_parallel = true, .rings = true}, n);
    EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_gather", {2, 2 * kActivation}},
                                                       {"batch", {6 * (n - 1), 6 * (n - 1) * kActivation / n}},
                                                       {"reduce_scatter", {2, 2 * kActivation}}}));
  }
}

// A block that is recomputed sends its forward pass's once more: two all-reduces, or two all-gathers and two
// reduce-scatters.
TEST(TensorParallel, SendsForwardsMessagesAgainWhereItIsRecomputed) {
  EXPECT_EQ(OfALayer({.name = "", .recompute = true}, 2),
            (std::map<std::string, Traffic>{{"all_reduce", {6, 6 * kActivation}}}));
  EXPECT_EQ(
      OfALayer({.name = "", .sequence_parallel = true, .recompute = true}, 2),
      (std::map<std::string, Traffic>{{"all_gather", {8, 8 * kActivation}}, {"reduce_scatter", {6, 6 * kActivation}}}));
}

// Embedding, head and loss: the embedding's sum and the head's input gradient; a row's largest logit, and its two sums
// (three times: the loss, the losses of rows, and what is right, which takes a third sum).
TEST(TensorParallel, SumsThreeNumbersARowForTheLoss) {
  Case c{.name = ""};
  c.layers = 0;
  const Outcome rank = Train(c, 2, 2)[0];
  const int64_t row = kBatch * kTokens * 8;
  const std::map<std::pair<std::string, std::string>, Traffic> want = {
      {{rank.messages.begin()->first.first, "all_reduce"}, {2 + 6, 2 * kActivation + (3 + 3 + 4) * row}}};
  EXPECT_EQ(rank.messages, want);
}

}  // namespace tensor_parallel_test
}  // namespace twofold
