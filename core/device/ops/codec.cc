#include "core/device/ops/codec.h"

#include <limits>

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

constexpr int64_t kMostPlaces = std::numeric_limits<int32_t>::max();

int64_t Blocks(int64_t numel, int64_t block) { return (numel + block - 1) / block; }
bool Residual(const Tensor& residual, const Tensor& in) { return residual.empty() || Like(residual, in); }
bool Places(const Tensor& indices, int64_t k) { return indices.dtype() == DType::kI32 && indices.numel() == k; }
bool Wide(const Tensor& scales) { return OneOf(scales, DType::kF32, DType::kF64); }
bool Codes(const Tensor& codes, int64_t numel, int bits, int64_t block) {
  return codes.dtype() == DType::kU8 && (bits == 4 || bits == 8) && codes.numel() == CodeBytes(numel, bits) &&
         (block == 256 || block == 512 || block == 1024);
}

}  // namespace

KernelKey Key(const TopK& o) { return Flat("top_k", o.in); }
Cost CostOf(const TopK& o) {
  return Streaming(4, o.in.numel(), o.in.bytes(), o.values.bytes() + o.indices.bytes() + OrZero(o.residual));
}
void CheckShapes(const TopK& o) {
  Expect(IsFloat(o.in.dtype()) && o.in.numel() <= kMostPlaces && o.values.dtype() == o.in.dtype() &&
             o.values.numel() <= o.in.numel() && Places(o.indices, o.values.numel()) && Residual(o.residual, o.in),
         "top_k", {&o.in, &o.values, &o.indices, &o.residual});
}
// A histogram of digits, the search state, and two counts per tile.
Bytes CudaWorkspace(const TopK& o) {
  const int64_t tiles = Blocks(o.in.numel(), kTopKTile);
  return Bytes(512 + RoundUp(kTopKBins, 128) * 4 + 2 * RoundUp(tiles, 128) * 4);
}

KernelKey Key(const RandomPlaces& o) { return Flat("random_places", o.out); }
Cost CostOf(const RandomPlaces& o) { return Streaming(120, o.out.numel(), Bytes(0), o.out.bytes()); }
void CheckShapes(const RandomPlaces& o) {
  Expect(Places(o.out, o.out.numel()) && o.out.numel() <= o.n && o.n <= kMostPlaces, "random_places", {&o.out});
}

KernelKey Key(const GatherElements& o) { return Flat("gather_elements", o.values); }
Cost CostOf(const GatherElements& o) {
  return Streaming(0, o.values.numel(), o.indices.bytes() + o.values.bytes(), o.values.bytes());
}
void CheckShapes(const GatherElements& o) {
  Expect(IsFloat(o.in.dtype()) && o.in.numel() <= kMostPlaces && o.values.dtype() == o.in.dtype() &&
             Places(o.indices, o.values.numel()),
         "gather_elements", {&o.in, &o.indices, &o.values});
}

KernelKey Key(const ScatterElements& o) { return {"scatter_elements", o.out.dtype(), {1, o.indices.numel(), 0}}; }
Cost CostOf(const ScatterElements& o) {
  const Bytes touched(o.indices.numel() * ElementSize(o.out.dtype()));
  return Streaming(o.accumulate ? 1 : 0, o.indices.numel(),
                   o.indices.bytes() + OrZero(o.values) + (o.accumulate ? touched : Bytes(0)), touched);
}
void CheckShapes(const ScatterElements& o) {
  Expect(IsFloat(o.out.dtype()) && o.out.numel() <= kMostPlaces && Places(o.indices, o.indices.numel()) &&
             (o.values.empty() || (IsFloat(o.values.dtype()) && o.values.numel() == o.indices.numel())),
         "scatter_elements", {&o.values, &o.indices, &o.out});
}

KernelKey Key(const Quantise& o) { return Flat(o.stochastic ? "quantise_stochastic" : "quantise", o.in); }
Cost CostOf(const Quantise& o) {
  return Streaming(o.stochastic ? 46 : 6, o.in.numel(), o.in.bytes(),
                   o.codes.bytes() + o.scales.bytes() + OrZero(o.residual));
}
void CheckShapes(const Quantise& o) {
  Expect(IsFloat(o.in.dtype()) && Codes(o.codes, o.in.numel(), o.bits, o.block) &&
             Wide(o.scales, o.in, Blocks(o.in.numel(), o.block)) && Residual(o.residual, o.in),
         "quantise", {&o.in, &o.codes, &o.scales, &o.residual});
}

KernelKey Key(const Dequantise& o) { return Flat("dequantise", o.out); }
Cost CostOf(const Dequantise& o) {
  return Streaming(2, o.out.numel(), o.codes.bytes() + o.scales.bytes() + (o.accumulate ? o.out.bytes() : Bytes(0)),
                   o.out.bytes());
}
void CheckShapes(const Dequantise& o) {
  Expect(IsFloat(o.out.dtype()) && Codes(o.codes, o.out.numel(), o.bits, o.block) && Wide(o.scales) &&
             o.scales.numel() == Blocks(o.out.numel(), o.block),
         "dequantise", {&o.codes, &o.scales, &o.out});
}

KernelKey Key(const SignPack& o) { return Flat("sign_pack", o.in); }
Cost CostOf(const SignPack& o) {
  return Streaming(4, o.in.numel(), o.in.bytes(), o.signs.bytes() + o.scales.bytes() + OrZero(o.residual));
}
void CheckShapes(const SignPack& o) {
  Expect(IsFloat(o.in.dtype()) && o.signs.dtype() == DType::kU8 && o.signs.numel() == Blocks(o.in.numel(), 8) &&
             Wide(o.scales, o.in, Blocks(o.in.numel(), kSignBlock)) && Residual(o.residual, o.in),
         "sign_pack", {&o.in, &o.signs, &o.scales, &o.residual});
}

KernelKey Key(const SignUnpack& o) { return Flat("sign_unpack", o.out); }
Cost CostOf(const SignUnpack& o) {
  return Streaming(2, o.out.numel(), o.signs.bytes() + o.scales.bytes() + (o.accumulate ? o.out.bytes() : Bytes(0)),
                   o.out.bytes());
}
void CheckShapes(const SignUnpack& o) {
  Expect(IsFloat(o.out.dtype()) && o.signs.dtype() == DType::kU8 && o.signs.numel() == Blocks(o.out.numel(), 8) &&
             Wide(o.scales) && o.scales.numel() == Blocks(o.out.numel(), kSignBlock),
         "sign_unpack", {&o.signs, &o.scales, &o.out});
}

KernelKey Key(const Orthogonalise& o) { return {"orthogonalise", o.x.dtype(), {1, o.x.dim(0), o.x.dim(1)}}; }
// For every column: sums and differences with all others.
Cost CostOf(const Orthogonalise& o) {
  const int64_t columns = o.x.dim(1), passes = 2 * columns;
  return Streaming(static_cast<double>(4 * columns), o.x.numel(), Bytes(o.x.bytes().value() * passes),
                   Bytes(o.x.bytes().value() * passes / 2));
}
void CheckShapes(const Orthogonalise& o) {
  Expect(Wide(o.x) && o.x.shape().rank() == 2 && o.x.dim(0) >= o.x.dim(1), "orthogonalise", {&o.x});
}

}  // namespace twofold::ops::rules
