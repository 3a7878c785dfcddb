#include "strategies/data_parallel/sharded.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/nn/gpt.h"
#include "core/nn/loss.h"
#include "core/nn/recompute.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace sharded_test {

using test::ExpectOnRanks;
using test::RunOnRanks;

using ::testing::Each;
using ::testing::ElementsAre;

// ---- Places of a flat parameter ----

class Places : public ::testing::Test {
 protected:
  nn::Parameter a_{"a", Shape{2, 3}, DType::kF32, {}}, b_{"b", Shape{5}, DType::kF32, {}, nn::Role::kBias},
      c_{"c", Shape{1}, DType::kF32, {}};
};

std::string ToText(const std::vector<optim::SlicePart>& parts) {
  std::string text;
  for (const optim::SlicePart& p : parts) {
    StrAppend(&text, text.empty() ? "" : ", ", p.parameter->name(), " ", p.first, "+", p.count, " at ", p.offset);
  }
  return text;
}

TEST_F(Places, ShardsAreEqualAndCoverEveryElementOnce) {
  for (int64_t shards = 1; shards <= 20; ++shards) {  // 12 elements: also more shards than elements
    const FlatParameter flat({&a_, &b_, &c_}, shards);
    EXPECT_EQ(flat.numel(), 12);
    EXPECT_GE(flat.padded_numel(), 12);
    EXPECT_LT(flat.padding(), shards);
    EXPECT_EQ(flat.padded_numel(), shards * flat.shard_numel());
    std::vector<int> seen(12);
    for (int64_t r = 0; r < shards; ++r) {
      for (const optim::SlicePart& p : flat.PartsOf(r)) {
        const int64_t base = p.parameter == &a_ ? 0 : p.parameter == &b_ ? 6 : 11;
        for (int64_t i = 0; i < p.count; ++i) {
          ++seen[static_cast<size_t>(base + p.first + i)];
          EXPECT_EQ(base + p.first + i, r * flat.shard_numel() + p.offset + i);
        }
      }
    }
    EXPECT_THAT(seen, Each(1)) << shards << " shards";
  }
}

TEST_F(Places, PartsNameWhatAShardHolds) {
  const FlatParameter flat({&a_, &b_, &c_}, 5);  // shards of 3: aaa aaa bbb bbc ..
  EXPECT_EQ(ToText(flat.PartsOf(0)), "a 0+3 at 0");
  EXPECT_EQ(ToText(flat.PartsOf(1)), "a 3+3 at 0");
  EXPECT_EQ(ToText(flat.PartsOf(2)), "b 0+3 at 0");
  EXPECT_EQ(ToText(flat.PartsOf(3)), "b 3+2 at 0, c 0+1 at 2");
  EXPECT_EQ(ToText(flat.PartsOf(4)), "");  // padding alone
}

TEST_F(Places, ParametersAreOneAfterTheOtherAndPaddingIsLast) {
  const FlatParameter flat({&a_, &b_, &c_}, 5);
  EXPECT_EQ(ToText(flat.places()), "a 0+6 at 0, b 0+5 at 6, c 0+1 at 11");
  ExpectOnRanks(1, [&](RankContext& rank) -> std::string {
    const Tensor all = rank.device().NewTensor(Shape{15}, DType::kF32, Category::kOther);
    const std::vector<Tensor> paddings = flat.Paddings(all);
    if (paddings.size() != 1 || paddings[0].numel() != 3) return "not one padding of 3 elements";
    return paddings[0].address() == all.Slice(12, 3).address() ? "" : "not the last elements";
  });
  EXPECT_EQ(FlatParameter({&a_, &b_, &c_}, 6).padding(), 0);
}

// ---- Which modules are units ----

std::vector<std::string> Chosen(nn::Module& model, const WrapPolicy& policy) {
  std::vector<std::string> paths;
  WrapUnits(model, policy, [&](std::unique_ptr<nn::Module> m) {
    paths.push_back(m->path());
    return m;
  });
  return paths;
}

std::unique_ptr<nn::GptModel> Gpt(bool tied) {
  auto model = std::make_unique<nn::GptModel>(
      nn::GptConfig{.layers = 2, .hidden = 8, .heads = 2, .vocab = 16, .sequence = 4, .tied = tied});
  model->Finalize();
  return model;
}

TEST(Wrapping, ByKindByCountByPathAndByCallback) {
  EXPECT_THAT(Chosen(*Gpt(true), WrapByKind("transformer_block")), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(Chosen(*Gpt(true), WrapByPath({"blocks.1", "blocks.0.mlp"})), ElementsAre("blocks.0.mlp", "blocks.1"));
  // A block of width 8 has 872 parameters, of which its feed-forward part has 552 and its attention 288.
  EXPECT_THAT(Chosen(*Gpt(true), WrapByParameterCount(872)), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_THAT(Chosen(*Gpt(true), WrapByParameterCount(552)), ElementsAre("blocks.0.mlp", "blocks.1.mlp"));
  EXPECT_THAT(Chosen(*Gpt(true), WrapByParameterCount(10000)), ElementsAre());
  const WrapPolicy mine = [](const nn::Module& m, int64_t parameters) {
    return m.kind() == "linear" && parameters == 72;
  };
  EXPECT_THAT(Chosen(*Gpt(true), mine), ElementsAre("blocks.0.attention.projection", "blocks.1.attention.projection"));
}

TEST(Wrapping, LeavesWhatSharesParametersToTheRoot) {
  EXPECT_THAT(Chosen(*Gpt(true), WrapByPath({"token_embedding", "head", "final_norm"})), ElementsAre("final_norm"));
  EXPECT_THAT(Chosen(*Gpt(false), WrapByPath({"token_embedding", "head"})), ElementsAre("token_embedding", "head"));
}

TEST(Wrapping, TakesAWrapperForWhatIsInIt) {
  const std::unique_ptr<nn::GptModel> model = Gpt(true);
  size_t block = 0;
  while (model->children()[block].module->kind() != "transformer_block") ++block;
  model->WrapChild(block, [](std::unique_ptr<nn::Module> m) { return std::make_unique<nn::Recompute>(std::move(m)); });
  const nn::Module* wrapper = model->children()[block].module;
  std::vector<const nn::Module*> chosen;
  WrapUnits(*model, WrapByKind("transformer_block"), [&](std::unique_ptr<nn::Module> m) {
    chosen.push_back(m.get());
    return m;
  });
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0], wrapper);
}

// ---- The layout ----

// One rank with a small GPT of three units: the root and two blocks.
struct Worker {
  explicit Worker(RankContext& rank, ShardedOptions options, uint64_t seed = 5)
      : context{.device = rank.device(), .stream = rank.device().compute(), .seed = seed} {
    if (!options.wrap) options.wrap = WrapByKind("transformer_block");
    layout.emplace(context, OneChunk(Gpt(true)), rank.world(), std::move(options));
    ids = context.device.NewTensor(Shape{1, 4}, DType::kI32, Category::kOther);
    for (int i = 0; i < 4; ++i) ids.data<int32_t>()[i] = (3 * i + rank.rank()) % 16;
  }
  void Pass(bool last) {
    layout->BeginMicroBatch(last);
    const Tensor logits = layout->chunks()[0]->Forward(context, ids, saved);
    nn::SoftmaxCrossEntropy::Forward(context, logits, ids, loss_saved);
    layout->chunks()[0]->Backward(context, nn::SoftmaxCrossEntropy::Backward(context, loss_saved), saved);
  }
  int64_t Live(Category c) {
    return context.device.allocator().ledger().stats().live_by_category[static_cast<size_t>(c)].value();
  }
  nn::Context context;
  std::optional<ShardedDataParallel> layout;
  Tensor ids;
  nn::Saved saved, loss_saved;
};

TEST(Sharded, BetweenStepsEveryStageKeepsItsPart) {
  constexpr int kRanks = 4;
  using Kept = std::pair<bool, bool>;  // whole parameters, whole gradients
  for (const auto& [stage, kept] : {std::pair{ShardedOptions::kOptimizer, Kept{true, true}},
                                    std::pair{ShardedOptions::kGradients, Kept{true, false}},
                                    std::pair{ShardedOptions::kParameters, Kept{false, false}}}) {
    ExpectOnRanks(kRanks, [stage = stage, kept = kept](RankContext& rank) -> std::string {
      Worker w(rank, {.stage = stage});
      int64_t whole = 0, shards = 0;  // in blocks of 512 bytes, as the allocator rounds
      const auto rounded = [](int64_t elements) { return (elements * 4 + 511) / 512 * 512; };
      for (const auto& unit : w.layout->units()) {
        whole += rounded(unit.padded_numel);
        shards += rounded(unit.padded_numel / kRanks);
      }
      for (int step = 0; step < 2; ++step) {
        w.layout->BeginStep();
        w.Pass(false);
        w.Pass(true);
        w.layout->FinishGradients();
        w.layout->PublishUpdate();
        if (w.Live(Category::kParameters) != (kept.first ? whole : shards)) return "parameters: other than its part";
        if (w.Live(Category::kGradients) != (kept.second ? whole : shards)) return "gradients: other than its part";
        if (w.Live(Category::kActivations) != 0) return "activations are left";
      }
      return "";
    });
  }
}

TEST(Sharded, MakesAUnitOfEachOfSeveralChunks) {
  ExpectOnRanks(2, [](RankContext& rank) -> std::string {
    nn::Context context{.device = rank.device(), .stream = rank.device().compute()};
    const auto part = [](const nn::ModelPart& of) {
      auto model = std::make_unique<nn::GptModel>(
          nn::GptConfig{.layers = 3, .hidden = 8, .heads = 2, .vocab = 16, .sequence = 4, .tied = false}, of);
      model->Finalize();
      return model;
    };
    Chunks chunks = OneChunk(part({.first_block = 0, .last_block = 1, .head = false}));
    chunks.push_back(part({.first_block = 1, .last_block = 3, .embedding = false}));
    std::string parameters, units;
    for (const auto& chunk : chunks) {
      for (const nn::Parameter* p : chunk->Parameters()) StrAppend(&parameters, p->name(), " ");
    }
    const ShardedDataParallel layout(context, std::move(chunks), rank.world(),
                                     {.wrap = WrapByKind("transformer_block")});
    for (const optim::Slice& slice : layout.Slices()) StrAppend(&units, slice.name, " ");
    if (units != "chunk 0 blocks.0 chunk 1 blocks.1 blocks.2 ") return "units: " + units;
    if (layout.chunks().size() != 2) return "not two chunks to run";
    std::string held;
    for (const nn::Parameter* p : layout.Parameters()) StrAppend(&held, p->name(), " ");
    return held == parameters ? "" : StrCat("parameters: ", held, "instead of ", parameters);
  });
}

TEST(Sharded, HoldsNoMoreThanTheUnitsThatTravelAndCompute) {
  ExpectOnRanks(2, [](RankContext& rank) -> std::string {
    const auto peak = [&](int64_t prefetch, ShardedOptions::BackwardPrefetch backward) {
      Worker w(rank, {.prefetch = prefetch, .backward_prefetch = backward});
      w.layout->BeginStep();
      w.Pass(true);
      w.layout->FinishGradients();
      return w.context.device.allocator()
          .ledger()
          .stats()
          .peak_by_category[static_cast<size_t>(Category::kParameters)]
          .value();
    };
    int64_t shards = 0;  // in blocks of 512 bytes, as the allocator rounds
    std::vector<int64_t> whole;
    {
      Worker w(rank, {});
      for (const auto& unit : w.layout->units()) {
        shards += (unit.padded_numel * 2 + 511) / 512 * 512;
        whole.push_back((unit.padded_numel * 4 + 511) / 512 * 512);
      }
    }
    const int64_t none = peak(0, ShardedOptions::kNone), one = peak(1, ShardedOptions::kPre);
    if (none != shards + whole[0] + whole[1]) return StrCat("without prefetching ", none, " bytes at once");
    return one == none + whole[1] ? "" : StrCat("prefetching holds ", one, " bytes at once, without it ", none);
  });
}

// Backward begins with the last unit and the units around it: nothing is gathered for it that forward has gathered.
TEST(Sharded, GathersTheUnitsAtTheEndOncePerMicroBatch) {
  struct Case {
    std::vector<std::string> units;
    bool pipeline_stage;
    int64_t gathers;  // per micro-batch; one of them is the root's
  };
  const std::vector<Case> cases = {
      {{"blocks.0", "blocks.1"}, false, 1 + 2 + 1},
      {{"blocks.0", "blocks.1"}, true, 1 + 2 + 2},
      {{"blocks.0", "blocks.1", "blocks.1.mlp"}, false, 1 + 2 + 1 + 1},  // the last unit is inside another one
      {{"blocks.1", "blocks.1.attention"}, false, 1 + 1 + 1},
      {{"blocks.1", "blocks.1.attention", "blocks.1.mlp"}, false, 1 + 1 + 2 + 1},
      {{"blocks.0", "blocks.0.mlp", "blocks.1"}, false, 1 + 2 + 2 + 1},
      {{"blocks.1.attention", "blocks.1.mlp"}, false, 1 + 2 + 1},
      {{"blocks.0", "final_norm"}, false, 1 + 2 + 1},
      {{}, false, 1}};
  constexpr int kMicroBatches = 3;
  for (const Case& c : cases) {
    ExpectOnRanks(2, [&](RankContext& rank) -> std::string {
      Worker w(rank, {.wrap = WrapByPath(c.units), .pipeline_stage = c.pipeline_stage});
      const int64_t between = w.Live(Category::kParameters);
      w.layout->BeginStep();
      for (int m = 0; m < kMicroBatches; ++m) w.Pass(m + 1 == kMicroBatches);
      w.layout->FinishGradients();
      if (w.Live(Category::kParameters) != between) return "parameters are left";
      const int64_t gathers = rank.communication().entries().at({"gather", Communication::kAllGather}).count;
      return gathers == kMicroBatches * c.gathers ? ""
                                                  : StrCat(gathers, " all-gathers of ", absl::StrJoin(c.units, " "));
    });
  }
}

TEST(Sharded, GradientsAreTheMeanOverAllRanks) {
  const auto gradients = [](ShardedOptions options) {
    std::string all;
    const RunResult result = RunOnRanks(4, [&options](RankContext& rank) {
      Worker w(rank, options);
      w.layout->BeginStep();
      w.Pass(false);
      w.Pass(true);
      w.layout->FinishGradients();
      std::string bytes;
      for (const auto& [g, parts] : w.layout->Gradients())
        bytes.append(static_cast<const char*>(g.raw()), static_cast<size_t>(g.bytes().value()));
      return bytes;
    });
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    return result.results;
  };
  // Shards of four ranks in hybrid groups of two hold twice as much each: rank 0's shard begins with rank 0's of all
  // four.
  const auto full = gradients({}), hybrid = gradients({.shard_group = 2});
  EXPECT_EQ(hybrid[0], hybrid[2]) << "replicas agree";
  EXPECT_EQ(hybrid[1], hybrid[3]);
  EXPECT_NE(hybrid[0], hybrid[1]);
  EXPECT_EQ(gradients({.stage = ShardedOptions::kOptimizer}),
            gradients({.stage = ShardedOptions::kOptimizer, .reduce_every_micro_batch = false}));
  const auto replicated = gradients({.shard_group = 1});  // every rank holds the means of all
  EXPECT_THAT(replicated, Each(replicated[0]));
  float a, b;
  std::memcpy(&a, full[0].data(), sizeof(a));
  std::memcpy(&b, hybrid[0].data(), sizeof(b));
  EXPECT_NEAR(a, b, 1e-6);
  EXPECT_NE(a, 0);
}

TEST(Sharded, StartsFromTheValuesOfTheWholeModel) {
  ExpectOnRanks(3, [](RankContext& rank) -> std::string {
    Worker w(rank, {});
    const std::unique_ptr<nn::Module> whole = Gpt(true);
    for (const optim::Slice& slice : w.layout->Slices()) {
      for (const optim::SlicePart& part : slice.parts) {
        for (const nn::Parameter* p : whole->Parameters()) {
          if (p->name() != part.parameter->name()) continue;
          Tensor values = w.context.device.NewTensor(p->shape(), DType::kF32, Category::kOther);
          p->Initialize(w.context.device, w.context.stream, 5, values);
          if (std::memcmp(values.data<float>() + part.first, slice.data.data<float>() + part.offset,
                          static_cast<size_t>(part.count) * sizeof(float)) != 0) {
            return p->name() + " starts otherwise";
          }
        }
      }
    }
    return "";
  });
}

// As on hosts whose mathematical libraries round otherwise: every rank draws from another seed.
TEST(Sharded, StartsAllRanksWithTheSameValues) {
  struct Begun {
    std::string whole, shard;
  };
  const auto begin = [](ShardedOptions options) {
    std::vector<Begun> begun(4);
    ExpectOnRanks(4, [&](RankContext& rank) -> std::string {
      Worker w(rank, options, /*seed=*/5 + static_cast<uint64_t>(rank.rank()));
      Begun& mine = begun[static_cast<size_t>(rank.rank())];
      const auto add = [](std::string& bytes, const Tensor& t) {
        bytes.append(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes().value()));
      };
      for (const nn::Parameter* p : w.layout->Parameters()) {
        if (!p->data().empty()) add(mine.whole, p->data());
      }
      for (const optim::Slice& s : w.layout->Slices()) add(mine.shard, s.data);
      return "";
    });
    return begun;
  };
  for (const auto stage : {ShardedOptions::kOptimizer, ShardedOptions::kGradients}) {
    const std::vector<Begun> begun = begin({.stage = stage});
    EXPECT_FALSE(begun[0].whole.empty());
    for (const Begun& b : begun) EXPECT_EQ(b.whole, begun[0].whole) << "stage " << stage;
  }
  for (const bool offload : {false, true}) {
    const std::vector<Begun> hybrid = begin({.shard_group = 2, .offload = offload});
    EXPECT_EQ(hybrid[0].shard, hybrid[2].shard);
    EXPECT_EQ(hybrid[1].shard, hybrid[3].shard);
    EXPECT_NE(hybrid[0].shard, hybrid[1].shard);
    const std::vector<Begun> whole = begin({.shard_group = 1, .offload = offload});
    for (const Begun& b : whole) EXPECT_EQ(b.shard, whole[0].shard);
  }
}

// Of equal micro-batches every mean is the same one, rounded on its way; the sum of many is that often it.
TEST(Sharded, SumsOverManyMicroBatchesStayInTheGradientsType) {
  constexpr int kMicroBatches = 320;  // BF16 has 8 bits: rounded to it, a sum stops growing at 256 of them
  struct Layout {
    ShardedOptions::Stage stage;
    int shard_group;
    bool offload;
  };
  for (const Layout& layout :
       {Layout{ShardedOptions::kGradients, 0, false}, Layout{ShardedOptions::kParameters, 1, false},
        Layout{ShardedOptions::kParameters, 0, true}}) {
    ExpectOnRanks(2, [&](RankContext& rank) -> std::string {
      const auto gradients = [&](int micro_batches) {
        Worker w(rank, {.stage = layout.stage,
                        .shard_group = layout.shard_group,
                        .reduce = DType::kBF16,
                        .offload = layout.offload});
        w.layout->BeginStep();
        for (int m = 0; m < micro_batches; ++m) w.Pass(m + 1 == micro_batches);
        w.layout->FinishGradients();
        std::vector<float> values;
        for (const auto& [g, parts] : w.layout->Gradients())
          values.insert(values.end(), g.data<float>(), g.data<float>() + g.numel());
        return values;
      };
      const std::vector<float> one = gradients(1), many = gradients(kMicroBatches);
      for (size_t i = 0; i < one.size(); ++i) {
        if (std::abs(many[i] - kMicroBatches * one[i]) > 1e-4 * kMicroBatches * std::abs(one[i]) + 1e-6) {
          return StrCat("stage ", static_cast<int>(layout.stage), ": element ", i, " of ", kMicroBatches,
                        " micro-batches is ", many[i], ", of one ", one[i]);
        }
      }
      return "";
    });
  }
}

TEST(Sharded, EvaluationLeavesNothingGathered) {
  ExpectOnRanks(2, [](RankContext& rank) -> std::string {
    Worker w(rank, {.prefetch = 5, .reshard_after_forward = false});
    const int64_t before = w.Live(Category::kParameters);
    w.context.training = false;
    w.layout->chunks()[0]->Forward(w.context, w.ids, w.saved);
    w.saved.Clear();
    return w.Live(Category::kParameters) == before ? "" : "parameters are still here";
  });
}

using ShardedDeathTest = ::testing::Test;

TEST(ShardedDeathTest, NamesAParameterThatWasNotReduced) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RunOnRanks(2,
                          [](RankContext& rank) -> std::string {
                            Worker w(rank, {.reduce_every_micro_batch = false});
                            w.layout->BeginStep();
                            w.Pass(/*last=*/false);
                            w.layout->FinishGradients();
                            return "";
                          }),
               "was not reduced");
}

}  // namespace sharded_test
}  // namespace twofold
