// A multi-layer perceptron: linear layers with ReLU (and dropout) between them.
//
// Weights and biases start uniform in +-1/sqrt(fan_in), as torch.nn.Linear does.
//
// For layers that are split over ranks (layers.h), the linear layers form pairs: every even hidden layer is a Column,
// and the layer after it is its Row. An output layer that no Column precedes is Whole. So the input, the activations
// between pairs and the logits are whole on every rank. The gradient of the input is computed (and summed over the
// ranks), although training does not use it.
#pragma once

#include <vector>

#include "core/nn/layers.h"
#include "core/nn/model_part.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

struct MlpConfig {
  int64_t inputs = 0;
  std::vector<int64_t> hidden;  // widths of the hidden layers; may be empty
  int64_t classes = 0;
  double dropout = 0;
  DropoutMasks masks = DropoutMasks::kRecomputed;
  DType dtype = DType::kF32;

  int64_t layers() const { return static_cast<int64_t>(hidden.size()); }
  // Of linear layer i; layer layers() is the output layer.
  int64_t in(int64_t i) const { return i == 0 ? inputs : hidden[static_cast<size_t>(i) - 1]; }
  int64_t out(int64_t i) const { return i == layers() ? classes : hidden[static_cast<size_t>(i)]; }
  bool is_column(int64_t i) const { return i < layers() && i % 2 == 0; }
};

// A block is a hidden layer with its activation and dropout; the output side is the output layer. x: [.., inputs], or
// the features of the block before a part. y: logits [.., classes], or the features of the part's last block, split
// over ranks after a Column. Children: "layers.<i>", "relu.<i>", "dropout.<i>".
class MlpModel : public Sequential {
 public:
  explicit MlpModel(const MlpConfig& config) : MlpModel(config, ModelPart::Whole(config.layers())) {}
  MlpModel(const MlpConfig& config, const ModelPart& part, Layers& layers = OneRank());
  std::string_view kind() const override { return "mlp_model"; }
};

}  // namespace twofold::nn
