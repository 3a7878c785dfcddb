// Optimizer steps and gradient clipping. grad (acc).
//
// `master` (f32) is empty if the parameter is F32 or F64. For a BF16 or F16 parameter there are two cases. With a
// master, the master is updated and the parameter is its rounded copy. Without one, the new value is rounded to the
// parameter's type. Rounding is to nearest, which loses updates below half the spacing. With `rounding_keys` it is
// stochastic (Gupta et al. 2015, section 3): to one of the two neighbours, the nearer one being more likely, so that
// nothing is lost on average.
//
// `factor` is one element, F32 or F64. Each element of the gradient is multiplied by it as it is read, so clipping and
// loss scaling need no separate pass over the gradients. A factor of 1 changes no bit. Empty: 1.
//
// `undecayed` are the elements without weight decay, so that a flat piece of several parameters is one operation with
// the whole piece's cost. Null: weight decay applies to all elements.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

// Maximum number of ranges passed with a GPU launch; more are passed in its workspace
inline constexpr size_t kRangesOfALaunch = 64;

struct ElementRange {
  int64_t begin = 0, end = 0;
};                                                                       // elements [begin, end); end > begin
using ElementRanges = std::shared_ptr<const std::vector<ElementRange>>;  // ascending, without overlap

// Applies from element `begin` up to the next range's begin. The draw of element i is number i + shift of `key`, in a
// separate sequence for each step. So it depends on the element's index in its parameter, for any sharding. The first
// range begins at 0.
struct RoundingKeyRange {
  int64_t begin = 0;
  PhiloxKey key;
  int64_t shift = 0;
};
using RoundingKeys = std::shared_ptr<const std::vector<RoundingKeyRange>>;

struct SgdStep {
  Tensor param, grad, momentum /*(f32), may be empty*/, master;
  double lr = 0, momentum_factor = 0, weight_decay = 0;
  bool nesterov = false;
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
  RoundingKeys rounding_keys = nullptr;
  int64_t step = 1;  // only for stochastic rounding
};
struct AdamStep {  // Kingma and Ba 2015, algorithm 1, bias-corrected; decoupled decay as in AdamW
  Tensor param, grad, m /*(f32)*/, v /*(f32)*/, master;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;
  int64_t step = 1;  // from 1
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
  RoundingKeys rounding_keys = nullptr;
  int64_t frozen = 0;  // if above 0: v is as it was after this step, and does not change any more

  double kept_variance() const { return frozen > 0 ? 1 : beta2; }  // v = this * v + (1 - this) * gradient^2
  double variance_correction() const { return 1 - std::pow(beta2, static_cast<double>(frozen > 0 ? frozen : step)); }
};
// The sum of squares. The sums of blocks of kNormBlock elements are added to `out` in order. So the result is
// bit-identical if a tensor is split between blocks into several operations.
struct SquaredNorm {
  Tensor in, out /*(f32)[1]*/;
  bool accumulate = false;
};
inline constexpr int64_t kNormBlock = 1 << 20;
// out = scale * min(1, max_norm / (scale * sqrt(squared_norm) + 1e-6)), both (f32)[1]. `scale` converts the accumulated
// sums to true gradients. An infinite max_norm means no clipping.
struct ClipFactor {
  Tensor squared_norm, out;
  double max_norm = 1, scale = 1;
};

// The key of a range's draws in one step.
constexpr PhiloxKey KeyOf(const RoundingKeyRange& range, int64_t step) {
  return MakeKey(range.key.value, static_cast<uint64_t>(step));
}

// Rounds x, the bits of a float, stochastically to BF16 or F16, with `draw` (32 uniform random bits). The probability
// of rounding away from zero is x's distance from the other neighbour, relative to the spacing. Beyond F16's range the
// result is infinity. NaN stays NaN.
constexpr uint16_t RoundedBF16(uint32_t x, uint32_t draw) {
  if ((x & 0x7f800000u) == 0x7f800000u) return static_cast<uint16_t>((x >> 16) | ((x & 0x7fffffu) != 0 ? 0x40u : 0u));
  return static_cast<uint16_t>((x + (draw >> 16)) >> 16);
}
constexpr uint16_t RoundedF16(uint32_t x, uint32_t draw) {
  const uint32_t sign = (x >> 16) & 0x8000u, size = x & 0x7fffffffu, exponent = size >> 23;
  if (exponent == 255) return static_cast<uint16_t>(sign | ((size & 0x7fffffu) != 0 ? 0x7e00u : 0x7c00u));
  if (exponent >= 113) {  // at least 2^-14: 13 excess bits
    const uint32_t rounded = ((size + (draw >> 19)) >> 13) - (112u << 10);
    return static_cast<uint16_t>(sign | (rounded < 0x7c00u ? rounded : 0x7c00u));
  }
  const uint32_t excess = 126 - exponent;  // bits of the significand below F16's smallest spacing, 2^-24
  if (exponent == 0 || excess > 56) return static_cast<uint16_t>(sign);
  const uint64_t significand = (size & 0x7fffffu) | 0x800000u;
  const uint64_t part =
      excess >= 32 ? static_cast<uint64_t>(draw) << (excess - 32) : static_cast<uint64_t>(draw >> (32 - excess));
  return static_cast<uint16_t>(sign | static_cast<uint32_t>((significand + part) >> excess));
}

namespace rules {
Bytes CudaWorkspace(const SgdStep&);
Bytes CudaWorkspace(const AdamStep&);
Bytes CudaWorkspace(const SquaredNorm&);
// Elements that one GPU thread block sums, in double; these partial sums of a kNormBlock are then added
inline constexpr int64_t kNormPart = 1 << 14;
}  // namespace rules

}  // namespace twofold::ops
