// The kinds of model, by the messages that a spec has for them.
#include <gtest/gtest.h>

#include <numeric>

#include "strategies/from_spec.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace models_test {

TEST(ModelKinds, AreTheFieldsOfTheSpecsModel) {
  for (const ModelKind* kind : ModelKinds()) {
    spec::Model model;
    const auto* field = spec::Model::descriptor()->FindFieldByName(std::string(kind->name));
    ASSERT_NE(field, nullptr) << kind->name;
    model.GetReflection()->MutableMessage(&model, field);
    ASSERT_NE(ModelOf(model), nullptr) << kind->name;
    EXPECT_EQ(ModelOf(model)->name(), kind->name);
    EXPECT_EQ(FindModelKind(kind->name), kind);
  }
}

TEST(ModelOf, IsNullIfTheSpecHasNoSizes) {
  spec::Model model;
  EXPECT_EQ(ModelOf(model), nullptr);
  model.set_hf_config("config.json");
  EXPECT_EQ(ModelOf(model), nullptr);
}

spec::Model Moe() {
  spec::Model model;
  spec::Llama& llama = *model.mutable_moe()->mutable_llama();
  llama.set_layers(6), llama.set_hidden(16), llama.set_heads(4), llama.set_kv_heads(2), llama.set_head_dim(4);
  llama.set_ffn(32), llama.set_vocab(64), llama.set_sequence(8), llama.set_tied_embeddings(true);
  model.mutable_moe()->set_experts(4), model.mutable_moe()->set_every(3);
  return model;
}

TEST(Model, HasTheShapeOfItsSizes) {
  const ModelShape shape = ModelOf(Moe())->shape();
  EXPECT_EQ(shape.layers, 6);
  EXPECT_EQ(shape.hidden, 16);
  EXPECT_EQ(shape.heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.ffn, 32);
  EXPECT_EQ(shape.sequence, 8);
  EXPECT_EQ(shape.experts, 4);
  EXPECT_TRUE(shape.tied);
  spec::Model gpt;
  gpt.mutable_gpt()->set_heads(4);
  EXPECT_EQ(ModelOf(gpt)->shape().kv_heads, 4);
  EXPECT_EQ(ModelOf(gpt)->shape().experts, 0);
}

TEST(Model, HasFlopsOfEachBlock) {
  spec::Model cnn, mlp;
  for (const int64_t width : {4, 8, 16}) cnn.mutable_cnn()->add_widths(width);
  for (const int64_t blocks : {2, 1, 3}) cnn.mutable_cnn()->add_blocks(blocks);
  for (const int64_t width : {3, 4, 5, 6, 7, 8}) mlp.mutable_mlp()->add_hidden(width);
  mlp.mutable_mlp()->set_inputs(2), mlp.mutable_mlp()->set_classes(9);
  for (const spec::Model& spec : {Moe(), cnn, mlp}) {
    const std::shared_ptr<const Model> model = ModelOf(spec);
    EXPECT_EQ(model->shape().layers, 6) << model->name();
    const nn::BlockFlops flops = model->FlopsByBlock();
    EXPECT_EQ(flops.blocks.size(), 6u) << model->name();
    const double forward = std::accumulate(flops.blocks.begin(), flops.blocks.end(), flops.before + flops.after);
    EXPECT_DOUBLE_EQ(3 * 2 * forward, model->TrainingFlops(2)) << model->name();
    if (model->shape().experts > 0) continue;  // it has attention, too
    const double kept = 2 * (2 * flops.before + 3 * (forward - flops.before));
    EXPECT_DOUBLE_EQ(kept, model->HardwareFlops({}, 2)) << model->name();
    double again = 0;
    if (model->name() == "cnn")
      for (size_t i = 1; i < flops.blocks.size(); i += 2) again += 2 * flops.blocks[i];
    EXPECT_DOUBLE_EQ(kept + again, model->HardwareFlops({.every = 2}, 2)) << model->name();
  }
}

TEST(Model, OnlyASynchronizedCnnSynchronizesStatistics) {
  spec::Model cnn;
  cnn.mutable_cnn();
  EXPECT_FALSE(ModelOf(cnn)->synchronizes_statistics());
  cnn.mutable_cnn()->set_sync_batch_norm(true);
  EXPECT_TRUE(ModelOf(cnn)->synchronizes_statistics());
  EXPECT_FALSE(ModelOf(Moe())->synchronizes_statistics());
}

TEST(ModelDeathTest, KindsReadOnlyTheirOwnSizes) { EXPECT_DEATH(kGptModel.make(spec::Llama(), {}), "Gpt"); }

}  // namespace models_test
}  // namespace twofold
