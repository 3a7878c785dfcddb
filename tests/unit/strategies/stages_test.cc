#include "strategies/pipeline/stages.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace stages_test {

using Sizes = std::vector<int64_t>;

TEST(SplitUniformly, GivesTheFirstPartsOneMore) {
  EXPECT_EQ(SplitUniformly(8, 4), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(SplitUniformly(11, 4), (Sizes{3, 3, 3, 2}));
  EXPECT_EQ(SplitUniformly(3, 3), (Sizes{1, 1, 1}));
}

// The least cost of the most expensive part, by trying every way.
double LeastMost(const std::vector<double>& costs, double before, double after, int parts) {
  if (parts == 1) return std::accumulate(costs.begin(), costs.end(), before + after);
  double best = 1e300;
  for (size_t last = 1; last + static_cast<size_t>(parts) - 1 <= costs.size(); ++last) {
    const std::vector<double> others(costs.begin(), costs.end() - static_cast<std::ptrdiff_t>(last));
    const double own = std::accumulate(costs.end() - static_cast<std::ptrdiff_t>(last), costs.end(), after);
    best = std::min(best, std::max(own, LeastMost(others, before, 0, parts - 1)));
  }
  return best;
}

double Most(const std::vector<double>& costs, double before, double after, const Sizes& sizes) {
  double most = 0;
  size_t at = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    double cost = (k == 0 ? before : 0) + (k + 1 == sizes.size() ? after : 0);
    for (int64_t i = 0; i < sizes[k]; ++i) cost += costs[at++];
    most = std::max(most, cost);
  }
  EXPECT_EQ(at, costs.size());
  return most;
}

TEST(SplitByCost, IsUniformWhereAllBlocksCostAlikeAndNothingElseDoes) {
  for (int parts = 1; parts <= 6; ++parts) {
    for (int64_t blocks = parts; blocks <= 12; ++blocks) {
      const std::vector<double> costs(static_cast<size_t>(blocks), 1);
      EXPECT_EQ(SplitByCost(costs, 0, 0, parts), SplitUniformly(blocks, parts)) << blocks << " blocks in " << parts;
    }
  }
}

TEST(SplitByCost, GivesThePartWithTheHeadFewerBlocks) {
  EXPECT_EQ(SplitByCost(std::vector<double>(8, 1), 0, 2, 2), (Sizes{5, 3}));
  EXPECT_EQ(SplitByCost(std::vector<double>(8, 1), 2, 0, 2), (Sizes{3, 5}));
  EXPECT_EQ(SplitByCost(std::vector<double>(4, 1), 0, 9, 2), (Sizes{3, 1}));  // a block at least
}

TEST(SplitByCost, IsTheBestOfAllWays) {
  const std::vector<double> costs = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  for (int parts = 1; parts <= 5; ++parts) {
    for (const double after : {0.0, 2.5, 20.0}) {
      const Sizes sizes = SplitByCost(costs, 1, after, parts);
      ASSERT_EQ(sizes.size(), static_cast<size_t>(parts));
      EXPECT_EQ(Most(costs, 1, after, sizes), LeastMost(costs, 1, after, parts)) << parts << " parts, " << after;
    }
  }
}

spec::Spec Spec(int64_t layers, int64_t pp, int64_t chunks = 1) {
  spec::Spec spec;
  spec::Llama& llama = *spec.mutable_model()->mutable_llama();
  llama.set_layers(layers), llama.set_hidden(16), llama.set_heads(2), llama.set_kv_heads(2), llama.set_head_dim(8);
  llama.set_ffn(32), llama.set_vocab(64), llama.set_sequence(8);
  spec.mutable_parallel()->set_pp(pp), spec.mutable_parallel()->set_virtual_stages(chunks);
  return spec;
}

std::string Text(const std::vector<nn::ModelPart>& parts) {
  std::string text;
  for (const nn::ModelPart& p : parts) {
    StrAppend(&text, text.empty() ? "" : " ", p.embedding ? "e" : "", p.first_block, "-", p.last_block,
              p.head ? "h" : "");
  }
  return text;
}

TEST(PartsOf, CutsTheModel) {
  EXPECT_EQ(Text(TrainingOptionsOf(Spec(6, 1)).parts), "e0-6h");
  EXPECT_EQ(Text(TrainingOptionsOf(Spec(6, 4)).parts), "e0-2 2-4 4-5 5-6h");
  spec::Spec given = Spec(6, 3);
  for (const int64_t layers : {1, 3, 2}) given.mutable_parallel()->add_stage_layers(layers);
  EXPECT_EQ(Text(TrainingOptionsOf(given).parts), "e0-1 1-4 4-6h");
}

TEST(PartsOf, DealsChunksToStagesInTurn) {
  const std::vector<nn::ModelPart> parts = TrainingOptionsOf(Spec(8, 2, 2)).parts;
  EXPECT_EQ(Text(PartsOfStage(parts, 0, 2)), "e0-2 4-6");
  EXPECT_EQ(Text(PartsOfStage(parts, 1, 2)), "2-4 6-8h");
}

// A head as expensive as some blocks.
TEST(PartsOf, ByCostCountsTheHead) {
  spec::Spec spec = Spec(8, 2);
  spec.mutable_parallel()->set_stage_balance(spec::Parallel::BY_COST);
  EXPECT_EQ(Text(TrainingOptionsOf(spec).parts), "e0-4 4-8h");  // 2 * 16 * 64 a token, a third of a block
  spec.mutable_model()->mutable_llama()->set_vocab(1024);
  EXPECT_EQ(Text(TrainingOptionsOf(spec).parts), "e0-7 7-8h");
}

TEST(EndsOf, PairsFirstAndLastStage) {
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(EndsOf({.pp = 3, .tp = 2}), (Groups{{0, 4}, {2}, {1, 5}, {3}}));
  EXPECT_EQ(EndsOf({.pp = 2, .dp = 2}), (Groups{{0, 2}, {1, 3}}));
}

spec::Spec Linear(const std::vector<int64_t>& hidden, int64_t pp) {
  spec::Spec spec;
  spec::Mlp& mlp = *spec.mutable_model()->mutable_mlp();
  mlp.set_inputs(8), mlp.set_classes(4);
  for (const int64_t width : hidden) mlp.add_hidden(width);
  spec.mutable_parallel()->set_pp(pp);
  return spec;
}

spec::Spec Images(int64_t pp) {
  spec::Spec spec;
  spec::Cnn& cnn = *spec.mutable_model()->mutable_cnn();
  cnn.set_height(9), cnn.set_width(8);
  for (const int64_t width : {4, 6}) cnn.add_widths(width), cnn.add_blocks(2);
  spec.mutable_parallel()->set_pp(pp);
  return spec;
}

TEST(PartsOf, CutsAnMlpBetweenHiddenLayersAndACnnBetweenBlocks) {
  EXPECT_EQ(Text(TrainingOptionsOf(Linear({16, 12, 12}, 3)).parts), "e0-1 1-2 2-3h");
  EXPECT_EQ(Text(TrainingOptionsOf(Images(2)).parts), "e0-2 2-4h");
  EXPECT_EQ(Text(TrainingOptionsOf(Images(3)).parts), "e0-2 2-3 3-4h");
}

TEST(PartsOf, ByCostCountsEachBlockOfItsOwnSize) {
  spec::Spec linear = Linear({64, 64, 4, 4}, 2);
  linear.mutable_parallel()->set_stage_balance(spec::Parallel::BY_COST);
  EXPECT_EQ(Text(TrainingOptionsOf(linear).parts),
            "e0-1 1-4h");  // products: 512; 4096, 256, 16 and the output layer's 16
  spec::Spec images = Images(2);
  images.mutable_model()->mutable_cnn()->set_channels(64);  // the stem costs as much as some blocks
  images.mutable_parallel()->set_stage_balance(spec::Parallel::BY_COST);
  EXPECT_EQ(Text(TrainingOptionsOf(images).parts), "e0-1 1-4h");
}

// Before block `next`, for 3 samples.
Boundary BoundaryOf(const spec::Spec& spec, int64_t next) {
  const TrainingOptions run = TrainingOptionsOf(spec);
  return run.model->BoundaryBefore(next, run.Share(3));
}

TEST(BoundaryBefore, IsThisRanksRows) {
  spec::Spec spec = Spec(4, 2);
  EXPECT_EQ(BoundaryOf(spec, 2).shape, (Shape{3, 8, 16}));
  spec.mutable_parallel()->set_tp(2);
  EXPECT_EQ(BoundaryOf(spec, 2).shape, (Shape{3, 8, 16}));
  EXPECT_TRUE(BoundaryOf(spec, 2).equal);
  spec.mutable_parallel()->set_sequence_parallel(true);
  EXPECT_EQ(BoundaryOf(spec, 2).shape, (Shape{3, 4, 16}));
  EXPECT_FALSE(BoundaryOf(spec, 2).equal);
  spec.mutable_parallel()->set_cp(2);
  EXPECT_EQ(BoundaryOf(spec, 2).shape, (Shape{3, 2, 16}));
}

TEST(BoundaryBefore, IsTheOutputOfTheBlockBefore) {
  spec::Spec linear = Linear({16, 12, 10}, 2);
  EXPECT_EQ(BoundaryOf(linear, 1).shape, (Shape{3, 16}));
  EXPECT_EQ(BoundaryOf(linear, 2).shape, (Shape{3, 12}));
  linear.mutable_parallel()->set_tp(2);  // layers 0 and 1 are a pair
  EXPECT_EQ(BoundaryOf(linear, 1).shape, (Shape{3, 8}));
  EXPECT_FALSE(BoundaryOf(linear, 1).equal);
  EXPECT_EQ(BoundaryOf(linear, 2).shape, (Shape{3, 12}));
  EXPECT_TRUE(BoundaryOf(linear, 2).equal);
  EXPECT_EQ(BoundaryOf(Images(2), 1).shape, (Shape{3, 9, 8, 4}));
  EXPECT_EQ(BoundaryOf(Images(2), 3).shape, (Shape{3, 5, 4, 6}));
}

TEST(BoundariesOf, AreThoseOfEachChunk) {
  spec::Spec spec = Linear({16, 12, 10, 6}, 2);
  spec.mutable_parallel()->set_virtual_stages(2);
  const TrainingOptions run = TrainingOptionsOf(spec);
  const auto of_stage = [&run](int s) { return BoundariesOf(*run.model, PartsOfStage(run.parts, s, 2), run.Share(3)); };
  const std::vector<pipeline::Boundaries> first = of_stage(0), last = of_stage(1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].after, (Shape{3, 16}));
  EXPECT_EQ(first[1].before, (Shape{3, 12}));
  EXPECT_EQ(first[1].after, (Shape{3, 10}));
  EXPECT_EQ(last[0].before, (Shape{3, 16}));
  EXPECT_EQ(last[1].before, (Shape{3, 10}));
}

}  // namespace stages_test
}  // namespace twofold
