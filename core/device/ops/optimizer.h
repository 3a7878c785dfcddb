// Optimizer steps and the clipping of gradients. grad (acc).
//
// `master` (f32) is empty when the parameter is itself F32 or F64. Of a narrow one it leads, and the parameter is its rounded copy;
// or it is empty, and the new value is rounded to the parameter's type: to the nearest, which loses updates that are finer than
// half its spacing, or, with `draws`, stochastically (Gupta et al. 2015, section 3): to one of its two neighbours, the likelier the
// nearer, so that on average nothing is lost.
//
// `factor` is one element, F32 or F64: each element of the gradient is multiplied by it as it is read (what clipping and loss
// scaling ask for, without a pass over the gradients). A factor of 1 changes no bit. Empty: 1.
//
// `undecayed` are the elements that weight decay leaves alone, so that a flat piece of several parameters is one operation of
// the whole piece's cost. Null: there are none.
#pragma once

#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

inline constexpr size_t kRangesOfALaunch = 64;  // of more, a GPU is told in its workspace

struct ElementRange { int64_t begin = 0, end = 0; };  // elements [begin, end); end > begin
using ElementRanges = std::shared_ptr<const std::vector<ElementRange>>;  // in ascending order, without overlap

// From element `begin` on, up to the next one's: the draw of element i is number i + shift of `key`, in a sequence of each step.
// So it goes by the element's place in its parameter, however that is sharded. The first begins at 0.
struct RoundingKeyRange { int64_t begin = 0; PhiloxKey key; int64_t shift = 0; };
using RoundingKeys = std::shared_ptr<const std::vector<RoundingKeyRange>>;

struct SgdStep {
  Tensor param, grad, momentum /*(f32), may be empty*/, master;
  double lr = 0, momentum_factor = 0, weight_decay = 0;
  bool nesterov = false;
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
  RoundingKeys rounding_keys = nullptr;
  int64_t step = 1;  // for draws alone
};
struct AdamStep {  // Kingma and Ba 2015, algorithm 1, bias-corrected; decoupled decay as AdamW
  Tensor param, grad, m /*(f32)*/, v /*(f32)*/, master;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;
  int64_t step = 1;  // from 1
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
  RoundingKeys rounding_keys = nullptr;
};
// The sum of squares. That of each block of kNormBlock elements is added to `out` in order, so that it is the same to the bit in
// however many operations a tensor comes that is cut between blocks.
struct SquaredNorm { Tensor in, out /*(f32)[1]*/; bool accumulate = false; };
inline constexpr int64_t kNormBlock = 1 << 20;
// out = scale * min(1, max_norm / (scale * sqrt(squared_norm) + 1e-6)), (f32)[1] both. `scale` makes true gradients of those
// that were summed up; an infinite max_norm clips nothing.
struct ClipFactor { Tensor squared_norm, out; double max_norm = 1, scale = 1; };

// The key of a range's draws in a step.
constexpr PhiloxKey KeyOf(const RoundingKeyRange& range, int64_t step) { return MakeKey(range.key.value, static_cast<uint64_t>(step)); }

// x, a float's bits, with `draw` (32 bits, uniform) rounded to BF16 or F16: to the neighbour away from zero with the probability of
// x's distance from the other one. Beyond F16's range: infinity. NaN stays NaN.
constexpr uint16_t RoundedBF16(uint32_t x, uint32_t draw) {
  if ((x & 0x7f800000u) == 0x7f800000u) return static_cast<uint16_t>((x >> 16) | ((x & 0x7fffffu) != 0 ? 0x40u : 0u));
  return static_cast<uint16_t>((x + (draw >> 16)) >> 16);
}
constexpr uint16_t RoundedF16(uint32_t x, uint32_t draw) {
  const uint32_t sign = (x >> 16) & 0x8000u, size = x & 0x7fffffffu, exponent = size >> 23;
  if (exponent == 255) return static_cast<uint16_t>(sign | ((size & 0x7fffffu) != 0 ? 0x7e00u : 0x7c00u));
  if (exponent >= 113) {  // at least 2^-14: 13 bits too many
    const uint32_t rounded = ((size + (draw >> 19)) >> 13) - (112u << 10);
    return static_cast<uint16_t>(sign | (rounded < 0x7c00u ? rounded : 0x7c00u));
  }
  const uint32_t excess = 126 - exponent;  // bits of the significand below F16's smallest spacing, 2^-24
  if (exponent == 0 || excess > 56) return static_cast<uint16_t>(sign);
  const uint64_t significand = (size & 0x7fffffu) | 0x800000u;
  const uint64_t part = excess >= 32 ? static_cast<uint64_t>(draw) << (excess - 32) : static_cast<uint64_t>(draw >> (32 - excess));
  return static_cast<uint16_t>(sign | static_cast<uint32_t>((significand + part) >> excess));
}

namespace rules {
KernelKey Key(const SgdStep&);
Cost CostOf(const SgdStep&);
void CheckShapes(const SgdStep&);
Bytes CudaWorkspace(const SgdStep&);
KernelKey Key(const AdamStep&);
Cost CostOf(const AdamStep&);
void CheckShapes(const AdamStep&);
Bytes CudaWorkspace(const AdamStep&);
KernelKey Key(const SquaredNorm&);
Cost CostOf(const SquaredNorm&);
void CheckShapes(const SquaredNorm&);
Bytes CudaWorkspace(const SquaredNorm&);
inline constexpr int64_t kNormPart = 1 << 14;  // elements that a GPU's block of threads sums, in double; of one block's these are added
KernelKey Key(const ClipFactor&);
Cost CostOf(const ClipFactor&);
void CheckShapes(const ClipFactor&);
}  // namespace rules

}  // namespace twofold::ops
