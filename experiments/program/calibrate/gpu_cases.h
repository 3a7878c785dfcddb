// What is measured of a GPU: every kernel, at sizes from one that a launch outweighs to one that fills the GPU many times over.
//
// How sizes are chosen: numbers of rows (tokens of a micro-batch) are powers of two; features are round numbers between which those of
// models lie; attention has sequences of powers of two and round numbers of heads. What a prediction is held against
// (experiments/studies/gpu_prediction) has micro-batches whose rows are no powers of two, so that none of its products, losses, norms or
// attention calls is a measured one. Where a dimension's sizes are few, it is one that times hardly depend on but through the work.
// Products that are used for the fit of tiles alone (FitProducts) lie anywhere between.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/program/calibrate/arena.h"
#include "experiments/program/calibrate/cases.h"

namespace twofold::calibrate {

// A product: of rows of samples with weights (nn, nt), of both for the weights' gradient (tn), or with a GELU behind it.
struct GpuProduct {
  std::string_view kernel;
  int64_t m, n, k;
};
enum class Fineness { kFine, kCoarse, kTiny };  // every size; few: of types that matter less, or cost more; for tests, in milliseconds each
// Of operands of at most `most_elements`, and at most `most_flops`.
std::vector<GpuProduct> ProductGrid(Fineness fineness, double most_flops, int64_t most_elements);
std::vector<GpuProduct> ProductsBetween(Fineness fineness, double most_flops, int64_t most_elements);

struct GpuCase {
  Case of;
  bool tf32 = false;     // products of f32 as TF32
  bool between = false;  // for the fit alone: no point of the profile
};
// The same list, in the same order, wherever it is made. No operand is larger than so many elements of 4 bytes.
std::vector<GpuCase> GpuCases(bool tiny, int64_t most_elements);

// Random rows of a table of a vocabulary's size, and pools so large that no operand is still in the L2 cache.
class GpuArena : public Arena {
 public:
  GpuArena(Device& device, const Sizes& sizes, int64_t vocabulary) : Arena(device, sizes), vocabulary_(vocabulary) {}
  Tensor Tokens(Shape shape, int64_t below) override;
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  const int64_t vocabulary_;
  std::map<std::pair<int64_t, int64_t>, Tensor> tokens_;  // by number and limit
};
inline constexpr int64_t kGpuVocabulary = 32768;

}  // namespace twofold::calibrate
