#include "core/device/ops/fp8.h"

#include "core/device/ops/rules.h"

namespace twofold::ops {

Shape Fp8Scales(Fp8Blocks blocks, int64_t m, int64_t n) {
  const auto parts = [](int64_t size) { return (size + kFp8Block - 1) / kFp8Block; };
  switch (blocks) {
    case Fp8Blocks::kTensor: return Shape{1, 1};
    case Fp8Blocks::kRow: return Shape{m, parts(n)};
    case Fp8Blocks::kColumn: return Shape{parts(m), n};
    case Fp8Blocks::kSquare: return Shape{parts(m), parts(n)};
  }
  __builtin_unreachable();
}

namespace rules {

// One scale for the whole tensor needs a pass of its own over the input, to find the largest magnitude.
KernelKey Key(const QuantiseFp8& o) {
  if (o.part == QuantiseFp8::kLargest) return ByRows("largest_fp8", o.in);
  if (o.part == QuantiseFp8::kCodes) return ByRows("round_fp8", o.in);
  return ByRows(o.scaling.blocks == Fp8Blocks::kTensor ? "quantise_fp8" : "quantise_fp8_blocks", o.in);
}
Cost CostOf(const QuantiseFp8& o) {
  const int64_t passes = o.scaling.blocks == Fp8Blocks::kTensor && o.part == QuantiseFp8::kBoth ? 2 : 1;
  const Bytes written =
      o.part == QuantiseFp8::kLargest ? o.largest.bytes() : o.codes.bytes() + o.scaling.scales.bytes();
  return Streaming(6, o.in.numel(), Bytes(passes * o.in.bytes().value()), written);
}
void CheckShapes(const QuantiseFp8& o) {
  const Tensor& scales = o.scaling.scales;
  const bool half = o.part != QuantiseFp8::kBoth;
  Expect(o.in.shape().rank() == 2 && IsFloat(o.in.dtype()) && o.in.dtype() != DType::kF64 &&
             (!half || (o.scaling.blocks == Fp8Blocks::kTensor && o.largest.dtype() == DType::kI32 &&
                        o.largest.shape() == Shape{1, 1})),
         Key(o).name, {&o.in, &o.largest});
  if (o.part == QuantiseFp8::kLargest) return;
  Expect(o.codes.shape() == o.in.shape() && o.codes.dtype() == DType::kU8 && scales.dtype() == DType::kF32 &&
             scales.shape() == Fp8Scales(o.scaling.blocks, o.in.dim(0), o.in.dim(1)),
         Key(o).name, {&o.in, &o.codes, &scales});
}

int64_t CudaFp8Parts(int64_t elements) { return std::min<int64_t>(kFp8Parts, (elements + 4095) / 4096); }
Bytes CudaWorkspace(const QuantiseFp8& o) {
  const bool searches = o.scaling.blocks == Fp8Blocks::kTensor && o.part != QuantiseFp8::kCodes;
  return Bytes(searches ? CudaFp8Parts(o.in.numel()) * ElementSize(DType::kF32) : 0);
}

}  // namespace rules

}  // namespace twofold::ops
