// The calibration cases of a GPU: every kernel, at sizes from one dominated by its launch to one that fills the GPU
// many times over.
//
// Choice of sizes: numbers of rows (tokens of a micro-batch) are powers of two. Features are round numbers; those of
// models lie between them. Attention has sequences of powers of two and round numbers of heads. The runs that
// predictions are compared with (experiments/studies/gpu_prediction) have micro-batches whose rows are not powers of
// two, so none of their products, losses, norms or attention calls is a measured one. A dimension has few sizes if
// times depend on it through the amount of work only. Products that serve the fit of tiles alone (FitProducts) have any
// size in between.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/program/calibrate/arena.h"
#include "experiments/program/calibrate/cases.h"

namespace twofold::calibrate {

// A product: rows of samples times weights (nn, nt), the product of both for the weights' gradient (tn), or a product
// followed by a GELU.
struct GpuProduct {
  std::string_view kernel;
  int64_t m, n, k;
};
// every size; few, for types that matter less or cost more; for tests, milliseconds each
enum class Fineness { kFine, kCoarse, kTiny };
// Operands have at most `most_elements` elements; a product has at most `most_flops`.
std::vector<GpuProduct> ProductGrid(Fineness fineness, double most_flops, int64_t most_elements);
std::vector<GpuProduct> ProductsBetween(Fineness fineness, double most_flops, int64_t most_elements);

struct GpuCase {
  Case of;
  bool tf32 = false;     // products of f32 as TF32
  bool between = false;  // for the fit alone, not a point of the profile
};
// Every call returns the same list in the same order. Operands have at most `most_elements` elements of 4 bytes.
std::vector<GpuCase> GpuCases(bool tiny, int64_t most_elements);

// Random row numbers of a vocabulary-sized table, and pools so large that no operand is still in the L2 cache.
class GpuArena : public Arena {
 public:
  GpuArena(Device& device, const Sizes& sizes, int64_t vocabulary) : Arena(device, sizes), vocabulary_(vocabulary) {}
  Tensor Tokens(Shape shape, int64_t below) override;
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  const int64_t vocabulary_;
  std::map<std::pair<int64_t, int64_t>, Tensor> tokens_;  // keyed by number of tokens and limit
};
inline constexpr int64_t kGpuVocabulary = 32768;

}  // namespace twofold::calibrate
