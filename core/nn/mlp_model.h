// A multi-layer perceptron: linear layers with ReLU (and dropout) between them.
//
// Weights and biases start uniform in +-1/sqrt(fan_in), as torch.nn.Linear does.
#pragma once

#include <vector>

#include "core/nn/dropout.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

struct MlpConfig {
  int64_t inputs = 0;
  std::vector<int64_t> hidden;  // widths of the hidden layers; may be empty
  int64_t classes = 0;
  double dropout = 0;
  DropoutMasks masks = DropoutMasks::kRecomputed;
  DType dtype = DType::kF32;
};

// x: [.., inputs]; y: logits [.., classes]. Children: "layers.<i>", "relu.<i>", "dropout.<i>".
class MlpModel : public Sequential {
 public:
  explicit MlpModel(const MlpConfig& config);
  std::string_view kind() const override { return "mlp_model"; }
};

}  // namespace twofold::nn
