// The kinds of model, by the messages that a spec has for them.
#include <gtest/gtest.h>

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

TEST(Model, WithFewerLayersHasItsFirstBlocks) {
  spec::Model cnn;
  for (const int64_t width : {4, 8, 16}) cnn.mutable_cnn()->add_widths(width);
  for (const int64_t blocks : {2, 1, 3}) cnn.mutable_cnn()->add_blocks(blocks);
  for (const spec::Model& spec : {Moe(), cnn}) {
    const std::shared_ptr<const Model> model = ModelOf(spec);
    EXPECT_EQ(model->shape().layers, 6) << model->name();
    EXPECT_EQ(model->WithLayers(6)->TrainingFlops(2), model->TrainingFlops(2)) << model->name();
    for (int64_t layers = 0; layers < 6; ++layers) {
      EXPECT_EQ(model->WithLayers(layers)->shape().layers, layers) << model->name();
      EXPECT_LT(model->WithLayers(layers)->TrainingFlops(2), model->WithLayers(layers + 1)->TrainingFlops(2))
          << model->name() << " " << layers;
    }
  }
}

TEST(ModelDeathTest, KindsReadOnlyTheirOwnSizes) { EXPECT_DEATH(kGptModel.make(spec::Llama(), {}), "Gpt"); }

}  // namespace models_test
}  // namespace twofold
