#include "core/nn/mlp_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/nn/activation.h"

namespace twofold::nn {
namespace {

std::unique_ptr<Module> MakeLinear(const MlpConfig& c, int64_t i, Layers& layers) {
  const double bound = 1 / std::sqrt(static_cast<double>(c.in(i)));
  const Init init{Init::kUniform, -bound, bound};
  const LinearConfig linear{.in = c.in(i), .out = c.out(i), .dtype = c.dtype, .weight_init = init, .bias_init = init};
  if (c.is_column(i)) return layers.Column(linear, {linear.out});
  return i > 0 && c.is_column(i - 1) ? layers.Row(linear) : layers.Whole(linear);
}

}  // namespace

MlpModel::MlpModel(const MlpConfig& c, const ModelPart& part, Layers& layers) {
  part.CheckWithin(c.layers());
  for (int64_t i = part.first_block; i < part.last_block; ++i) {
    Add(absl::StrCat("layers.", i), MakeLinear(c, i, layers));
    Add(absl::StrCat("relu.", i), std::make_unique<Relu>());
    Add(absl::StrCat("dropout.", i),
        c.is_column(i) ? layers.MakeFeatureDropout(c.dropout, c.masks) : layers.MakeDropout(c.dropout, c.masks));
  }
  if (part.head) Add(absl::StrCat("layers.", c.layers()), MakeLinear(c, c.layers(), layers));
}

}  // namespace twofold::nn
