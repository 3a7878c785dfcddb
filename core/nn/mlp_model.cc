#include "core/nn/mlp_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/nn/activation.h"
#include "core/nn/linear.h"

namespace twofold::nn {
namespace {

std::unique_ptr<Linear> Layer(int64_t in, int64_t out, DType dtype) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Init init{Init::kUniform, -bound, bound};
  return std::make_unique<Linear>(
      LinearConfig{.in = in, .out = out, .dtype = dtype, .weight_init = init, .bias_init = init});
}

}  // namespace

MlpModel::MlpModel(const MlpConfig& c) {
  int64_t width = c.inputs;
  for (size_t i = 0; i < c.hidden.size(); ++i) {
    Add(absl::StrCat("layers.", i), Layer(width, c.hidden[i], c.dtype));
    Add(absl::StrCat("relu.", i), std::make_unique<Relu>());
    Add(absl::StrCat("dropout.", i), std::make_unique<Dropout>(c.dropout, c.masks));
    width = c.hidden[i];
  }
  Add(absl::StrCat("layers.", c.hidden.size()), Layer(width, c.classes, c.dtype));
}

}  // namespace twofold::nn
