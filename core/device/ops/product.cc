#include "core/device/ops/product.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// m, n, k of a product.
struct Product {
  int64_t m, n, k, k_of_b;
};
Product Sizes(const MatMul& o) {
  const bool ta = o.transpose_a, tb = o.transpose_b;
  return {ta ? o.a.dim(1) : o.a.dim(0), tb ? o.b.dim(0) : o.b.dim(1), ta ? o.a.dim(0) : o.a.dim(1),
          tb ? o.b.dim(1) : o.b.dim(0)};
}

// With scales of blocks a product is another one: other kernels compute it, in other times.
std::string_view Fp8Name(const MatMul& o) {
  constexpr std::string_view kNames[2][6] = {
      {"matmul_fp8_nn", "matmul_fp8_nt", "matmul_fp8_tn", "matmul_fp8_tt", "matmul_fp8_gelu", "matmul_fp8_gelu_slope"},
      {"matmul_fp8_block_nn", "matmul_fp8_block_nt", "matmul_fp8_block_tn", "matmul_fp8_block_tt",
       "matmul_fp8_block_gelu", "matmul_fp8_block_gelu_slope"}};
  const auto& names = kNames[o.a_scaling.blocks != Fp8Blocks::kTensor || o.b_scaling.blocks != Fp8Blocks::kTensor];
  if (o.epilogue != MatMul::kNone) return names[o.epilogue == MatMul::kGelu ? 4 : 5];
  return names[o.transpose_a * 2 + o.transpose_b];
}

}  // namespace

KernelKey Key(const MatMul& o) {
  const Product p = Sizes(o);
  if (o.fp8()) return {Fp8Name(o), o.a.dtype(), {p.m, p.n, p.k}};
  if (o.epilogue == MatMul::kGelu) return {"matmul_gelu", o.a.dtype(), {p.m, p.n, p.k}};
  if (o.epilogue == MatMul::kGeluSlope) return {"matmul_gelu_slope", o.a.dtype(), {p.m, p.n, p.k}};
  constexpr std::string_view kNames[] = {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt"};
  return {kNames[o.transpose_a * 2 + o.transpose_b], o.a.dtype(), {p.m, p.n, p.k}};
}

namespace {

bool Fp8Operand(const Tensor& codes, const Fp8Scaling& scaling) {
  return codes.dtype() == DType::kU8 && !scaling.empty() && scaling.scales.dtype() == DType::kF32 &&
         scaling.scales.shape() == Fp8Scales(scaling.blocks, codes.dim(0), codes.dim(1));
}
void CheckFp8(const MatMul& o, const Product& p) {
  const bool epilogue = o.epilogue != MatMul::kNone;
  Expect(p.k == p.k_of_b && o.out.dim(0) == p.m && o.out.dim(1) == p.n && Fp8Operand(o.a, o.a_scaling) &&
             Fp8Operand(o.b, o.b_scaling) && IsFloat(o.out.dtype()) && o.out.dtype() != DType::kF64,
         Key(o).name, {&o.a, &o.b, &o.out, &o.a_scaling.scales, &o.b_scaling.scales});
  Expect((o.bias.empty() || (o.bias.numel() == p.n && IsFloat(o.bias.dtype()) && o.bias.dtype() != DType::kF64)) &&
             (epilogue ? !o.aux.empty() && Like(o.aux, o.out) && !o.accumulate : o.aux.empty()),
         Key(o).name, {&o.out, &o.bias, &o.aux});
}

}  // namespace

Cost CostOf(const MatMul& o) {
  const Product p = Sizes(o);
  const double mn = static_cast<double>(p.m) * static_cast<double>(p.n);
  const Bytes read = o.a.bytes() + o.b.bytes() + OrZero(o.a_scaling.scales) + OrZero(o.b_scaling.scales) +
                     OrZero(o.bias) + (o.accumulate ? o.out.bytes() : Bytes(0));
  const Bytes aux = OrZero(o.aux);
  return {Flops(2 * mn * static_cast<double>(p.k)), o.epilogue == MatMul::kGeluSlope ? read + aux : read,
          o.epilogue == MatMul::kGelu ? o.out.bytes() + aux : o.out.bytes()};
}
void CheckShapes(const MatMul& o) {
  Expect(o.a.shape().rank() == 2 && o.b.shape().rank() == 2 && o.out.shape().rank() == 2, "matmul",
         {&o.a, &o.b, &o.out});
  const Product p = Sizes(o);
  if (o.fp8() || !o.b_scaling.empty()) return CheckFp8(o, p);
  Expect(p.k == p.k_of_b && o.out.dim(0) == p.m && o.out.dim(1) == p.n && o.a.dtype() == o.b.dtype() &&
             IsFloat(o.out.dtype()) && (o.bias.empty() || (o.bias.numel() == p.n && o.bias.dtype() == o.a.dtype())),
         Key(o).name, {&o.a, &o.b, &o.out, &o.bias});
  Expect(o.epilogue == MatMul::kNone
             ? o.aux.empty()
             : !o.aux.empty() && Like(o.aux, o.out) && o.out.dtype() == o.a.dtype() && !o.accumulate,
         Key(o).name, {&o.a, &o.b, &o.out, &o.aux});
}

// Products of BF16 and F16 are computed on f32 copies, and so is the bias. Each thread packs blocks of both operands,
// as PanelScratch in kernels/cpu/panel_product.h describes.
Bytes CpuWorkspace(const MatMul& o, int threads) {
  constexpr int64_t kDepth = 256, kRows = 168, kColumns = 1024, kSpare = 128;
  const Product p = Sizes(o);
  const DType wide = AccumulationType(o.a.dtype());
  int64_t elements = 0;
  if (o.a.dtype() != wide) elements += RoundUp(p.m * p.k, 16) + RoundUp(p.k * p.n, 16);
  if (o.out.dtype() != wide) elements += RoundUp(p.m * p.n, 16);
  if (!o.bias.empty() && o.a.dtype() != wide) elements += RoundUp(p.n, 16);
  const int64_t rows = std::min(p.m + 16, kRows), columns = std::min(RoundUp(p.n, 32), kColumns);
  elements += threads * (RoundUp((rows + columns) * std::min(p.k, kDepth), 16) + kSpare);
  return Bytes(elements * ElementSize(wide));
}

bool LibraryStores(DType operands, DType out) {
  return out == operands || (out == DType::kF32 && operands != DType::kF64);
}
Bytes CudaProductCopy(const MatMul& o) {
  if (LibraryStores(o.a.dtype(), o.out.dtype())) return Bytes(0);
  return Bytes(RoundUp(o.out.numel() * ElementSize(AccumulationType(o.a.dtype())), kCudaAlignment));
}
Bytes CudaBiasCopy(const MatMul& o) { return Bytes(RoundUp(OrZero(o.bias).value(), kCudaAlignment)); }
bool LibraryHasFp8(const MatMul& o) {
  constexpr int64_t kMultiple = 16;
  const Product p = Sizes(o);
  const Fp8Scaling &a = o.a_scaling, &b = o.b_scaling;
  if (o.out.numel() == 0 || p.k == 0 || p.m % kMultiple != 0 || p.n % kMultiple != 0 || p.k % kMultiple != 0)
    return false;
  if (!o.bias.empty() && o.bias.dtype() != o.out.dtype()) return false;
  const bool narrow = a.format == Fp8Format::kE4M3 && b.format == Fp8Format::kE4M3,
             mixed = a.format == Fp8Format::kE4M3 || b.format == Fp8Format::kE4M3;
  if (a.blocks == Fp8Blocks::kTensor && b.blocks == Fp8Blocks::kTensor) return mixed;
  const bool inner_a = a.blocks == (o.transpose_a ? Fp8Blocks::kColumn : Fp8Blocks::kRow),
             inner_b = b.blocks == (o.transpose_b ? Fp8Blocks::kRow : Fp8Blocks::kColumn);
  const bool has_a = inner_a || a.blocks == Fp8Blocks::kSquare, has_b = inner_b || b.blocks == Fp8Blocks::kSquare;
  return has_a && has_b && (inner_a || inner_b) && narrow && p.k % kFp8Block == 0;
}
bool LibraryHasFp8(const MatMul& o, int capability) {
  constexpr int kFirst = 89, kHopper = 90;
  return capability >= kFirst && LibraryHasFp8(o) &&
         (o.a_scaling.blocks == Fp8Blocks::kTensor || capability == kHopper);
}
bool Fp8LiesAlongSum(int capability) { return capability / 10 != 10 && capability / 10 != 11; }

namespace {

Fp8Copies CopiesOf(const Tensor& codes, const Fp8Scaling& scaling, bool across) {
  const auto bytes = [](int64_t count, DType type) {
    return Bytes(RoundUp(count * ElementSize(type), kCudaAlignment));
  };
  const auto blocks = [](int64_t size) { return RoundUp(size, kFp8Block) / kFp8Block; };
  int64_t scales = 0;
  if (scaling.blocks == Fp8Blocks::kSquare) {
    const int64_t outer = codes.dim(across ? 1 : 0), k = codes.dim(across ? 0 : 1);
    scales = blocks(outer) * RoundUp(blocks(k), kFp8ScalesAlign);
  } else if (scaling.blocks != Fp8Blocks::kTensor && !across) {
    scales = scaling.scales.numel();
  }
  return {bytes(across ? codes.numel() : 0, DType::kU8), bytes(scales, DType::kF32)};
}

}  // namespace

Fp8Copies CudaFp8CopiesOfA(const MatMul& o) { return CopiesOf(o.a, o.a_scaling, o.transpose_a); }
Fp8Copies CudaFp8CopiesOfB(const MatMul& o) { return CopiesOf(o.b, o.b_scaling, !o.transpose_b); }
Bytes CudaWorkspace(const MatMul& o) {
  if (o.fp8()) {
    if (!LibraryHasFp8(o)) return Bytes(0);
    const Fp8Copies a = CudaFp8CopiesOfA(o), b = CudaFp8CopiesOfB(o);
    return CudaBiasCopy(o) + a.codes + b.codes + a.scales + b.scales + kLibraryWorkspace;
  }
  if (o.out.numel() == 0 || o.a.numel() == 0) return Bytes(0);  // does not use the library
  return CudaProductCopy(o) + CudaBiasCopy(o) + kLibraryWorkspace;
}

}  // namespace twofold::ops::rules
