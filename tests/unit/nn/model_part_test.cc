// Parts of an MLP and of a CNN: one after the other, they are the whole model.
#include "core/nn/model_part.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/nn/cnn.h"
#include "core/nn/flops.h"
#include "core/nn/mlp_model.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {
namespace model_part_test {

using test::Cpu;
using test::Materialize;
using test::Random;
using test::Values;

using Named = std::vector<std::pair<std::string, std::vector<double>>>;  // of parameters and buffers, in order

void Collect(const Module& model, Named& gradients, Named& buffers) {
  for (const Parameter* p : model.Parameters()) gradients.emplace_back(p->name(), Values(p->gradient()));
  for (const Parameter* b : model.Buffers()) buffers.emplace_back(b->name(), Values(b->data()));
}

// Forward through all parts, then back, gives the bits of the whole: outputs, gradients and buffers. `before[i]`: the
// shape of what part i + 1 takes. `later`: the weights' gradients follow when all inputs have theirs.
template <class Model, class Config>
void ExpectPartsAreTheWhole(const Config& config, const std::vector<ModelPart>& parts, const std::vector<Shape>& before,
                            const Shape& input, const Shape& output, bool later) {
  Cpu cpu;
  Model whole(config);
  std::vector<std::unique_ptr<Model>> models;
  for (const ModelPart& part : parts) models.push_back(std::make_unique<Model>(config, part));
  whole.Finalize(), Materialize(cpu.ctx, whole);
  for (auto& m : models) m->Finalize(), Materialize(cpu.ctx, *m);
  const Tensor x = Random(cpu, input, 1), dy = Random(cpu, output, 2);
  Saved saved;
  const std::vector<double> expected = Values(whole.Forward(cpu.ctx, x, saved));
  whole.Backward(cpu.ctx, dy, saved);
  Named gradients, buffers, of_parts, buffers_of_parts;
  Collect(whole, gradients, buffers);

  std::vector<Saved> kept(parts.size());
  Tensor h = x;
  for (size_t i = 0; i < models.size(); ++i) {
    h = models[i]->Forward(cpu.ctx, h, kept[i]);
    if (i + 1 < models.size()) {
      EXPECT_EQ(h.shape(), before[i]) << "behind part " << i;
    }
  }
  EXPECT_EQ(Values(h), expected);
  Tensor d = dy;
  for (size_t i = models.size(); i-- > 0;)
    d = later ? models[i]->BackwardInput(cpu.ctx, d, kept[i]) : models[i]->Backward(cpu.ctx, d, kept[i]);
  for (size_t i = 0; i < models.size(); ++i) {
    if (later) models[i]->BackwardWeights(cpu.ctx, kept[i]);
    EXPECT_TRUE(kept[i].empty());
    Collect(*models[i], of_parts, buffers_of_parts);
  }
  EXPECT_EQ(of_parts, gradients);
  EXPECT_EQ(buffers_of_parts, buffers);
}

TEST(ModelPart, OfAnMlpInARowAreTheWhole) {
  const MlpConfig config{.inputs = 6, .hidden = {9, 5, 7}, .classes = 4, .dropout = 0.3, .dtype = DType::kF64};
  for (const bool later : {false, true}) {
    ExpectPartsAreTheWhole<MlpModel>(config, {{0, 1, true, false}, {1, 2, false, false}, {2, 3, false, true}},
                                     {{3, 9}, {3, 5}}, {3, 6}, {3, 4}, later);
  }
}

TEST(ModelPart, OfACnnInARowAreTheWhole) {
  CnnConfig config{.channels = 2, .height = 9, .width = 8, .widths = {3, 4}, .blocks = {1, 2}, .classes = 3};
  config.dtype = DType::kF64;
  for (const auto stem : {CnnConfig::kSmall, CnnConfig::kImageNet}) {
    config.stem = stem;
    const std::vector<CnnBlock> blocks = BlocksOf(config);
    ASSERT_EQ(blocks.size(), 3u);
    std::vector<Shape> before;
    for (const CnnBlock& b : blocks) before.push_back({2, b.height, b.width, b.out});
    for (const bool later : {false, true}) {
      ExpectPartsAreTheWhole<CnnModel>(config, {{0, 1, true, false}, {1, 2, false, false}, {2, 3, false, true}}, before,
                                       {2, 9, 8, 2}, {2, 3}, later);
    }
  }
  EXPECT_EQ(BlocksOf(config)[1].name, "stages.1.0");
  EXPECT_EQ(BlocksOf(config)[1].height, 2) << "9, halved three times";
}

TEST(BlockFlops, AreThoseOfEachBlockAndWhatIsAroundThem) {
  const BlockFlops gpt =
      ForwardFlopsByBlock(GptConfig{.layers = 3, .hidden = 64, .heads = 4, .vocab = 100, .sequence = 16});
  EXPECT_EQ(gpt.blocks, std::vector<double>(3, 16 * (2 * (4 * 64 * 64 + 2 * 64 * 256) + 2 * 16 * 64)));
  EXPECT_EQ(gpt.after, 16 * 2 * 64 * 100);
  EXPECT_EQ(gpt.Sum(), 3 * gpt.blocks[0] + gpt.after);
  LlamaConfig moe{.layers = 4, .hidden = 64, .heads = 4, .vocab = 100, .kv_heads = 2, .ffn = 96, .sequence = 16};
  moe.experts = {.experts = 4, .top_k = 2, .every = 2};
  EXPECT_EQ(ForwardFlopsByBlock(moe).blocks.size(), 4u);
  EXPECT_GT(ForwardFlopsByBlock(moe).blocks[1], ForwardFlopsByBlock(moe).blocks[0]) << "every second has experts";
  const BlockFlops mlp = ForwardFlopsByBlock(MlpConfig{.inputs = 3, .hidden = {5, 7}, .classes = 2});
  EXPECT_EQ(mlp.blocks, (std::vector<double>{2 * 3 * 5, 2 * 5 * 7}));
  EXPECT_EQ(mlp.after, 2 * 7 * 2);
  const CnnConfig config{.channels = 3, .height = 8, .width = 8, .widths = {4, 6}, .blocks = {1, 2}};
  const BlockFlops cnn = ForwardFlopsByBlock(config);
  ASSERT_EQ(cnn.blocks.size(), 3u);
  EXPECT_EQ(cnn.before, 2 * 8 * 8 * (3 * 3 * 3) * 4);
  EXPECT_EQ(cnn.blocks[0], 2 * (2 * 8 * 8 * (3 * 3 * 4) * 4));
  EXPECT_EQ(cnn.Sum(), cnn.before + cnn.blocks[0] + cnn.blocks[1] + cnn.blocks[2] + cnn.after);
}

}  // namespace model_part_test
}  // namespace twofold::nn
