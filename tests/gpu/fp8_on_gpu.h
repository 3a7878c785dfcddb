// FP8 on a GPU and on the CPU: the same tensors on both, and operations that run on both.
#pragma once

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace fp8_test {

using ops::Fp8Blocks, ops::Fp8Format, ops::Fp8Scaling;

constexpr Fp8Format kFormats[] = {Fp8Format::kE4M3, Fp8Format::kE5M2};
constexpr Fp8Blocks kBlocks[] = {Fp8Blocks::kTensor, Fp8Blocks::kRow, Fp8Blocks::kColumn, Fp8Blocks::kSquare};
constexpr DType kNarrow[] = {DType::kF32, DType::kBF16, DType::kF16};

struct Gpu {
  explicit Gpu(const CudaDevice::Options& options = {}) : device(allocator, host, 0, 0, options) {
    device.SetNote([this](std::string note) { notes.push_back(std::move(note)); });
  }
  cuda::GpuSource source{0};
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator{source, 0}, host{host_source, 0, "host memory"};
  std::vector<std::string> notes;
  CudaDevice device;
};
inline Gpu& TheGpu() {
  static Gpu& gpu = *new Gpu;  // never destroyed: libraries may end before
  return gpu;
}

// The same tensor on both devices.
struct Twin {
  Tensor cpu, gpu;
  bool empty() const { return cpu.empty(); }
};

// Tensors begin `offset` elements into their buffers, on both devices.
class Pair {
 public:
  explicit Pair(int64_t offset, CudaDevice* runs = nullptr)
      : lab(1, offset), offset_(offset), runs_(runs != nullptr ? *runs : TheGpu().device) {}
  Twin On(const Tensor& cpu) {
    Twin twin{cpu, TheGpu()
                       .device.NewTensor(Shape{cpu.numel() + offset_}, cpu.dtype(), Category::kOther)
                       .Slice(offset_, cpu.shape())};
    TheGpu().device.Upload(
        twin.gpu, [bits = BitsOf(cpu)](std::span<std::byte> to) { std::memcpy(to.data(), bits.data(), to.size()); });
    return twin;
  }
  Twin Blank(const Shape& shape, DType type) { return On(lab.Blank(shape, type)); }
  Twin Of(const Shape& shape, DType type, const Values& values) { return On(lab.Of(shape, type, values)); }

  static std::string Read(const Tensor& t) {
    std::string bits(At(t.bytes().value()), '\0');
    TheGpu().device.Download(t, std::as_writable_bytes(std::span(bits)));
    return bits;
  }
  // build(part): the operation, of the tensors that part(twin) returns.
  template <class Build>
  void Run(Build build) {
    lab.Run(build([](const Twin& t) { return t.cpu; }));
    const ops::Op op = build([](const Twin& t) { return t.gpu; });
    const int64_t workspace = ops::Workspace(op, DeviceKind::kCuda, 1).value();
    if (workspace > 0) {  // it will be this block of memory: it is poisoned
      Tensor t = runs_.NewTensor({workspace}, DType::kU8, Category::kOther);
      runs_.Upload(t, [](std::span<std::byte> to) { std::memset(to.data(), 0xff, to.size()); });
    }
    TheGpu().device.compute().Synchronize();  // the operands, if it is another stream
    const int64_t before = Launches();
    runs_.Launch(runs_.compute(), op);
    launches = Launches() - before;
    runs_.compute().Synchronize();
  }

  Lab lab;
  int64_t launches = 0;  // kernels of the last operation on the GPU; 0 if it is not emulated

 private:
  static int64_t Launches() {
#ifdef TWOFOLD_EMULATED_CUDA
    return emulated::Calls(emulated::Call::kLaunch);
#else
    return 0;
#endif
  }

  int64_t offset_;
  CudaDevice& runs_;  // operations; it shares the GPU, and so the addresses, with the one that holds the tensors
};

struct Quantised {
  Twin codes, scales;
  Fp8Format format;
  Fp8Blocks blocks;
  template <class Part>
  Fp8Scaling Scaling(Part part) const {
    return {part(scales), format, blocks};
  }
};
inline Quantised Quantise(Pair& pair, const Twin& in, Fp8Format format, Fp8Blocks blocks) {
  const int64_t m = in.cpu.dim(0), n = in.cpu.dim(1);
  Quantised q{pair.Blank({m, n}, DType::kU8), pair.Blank(ops::Fp8Scales(blocks, m, n), DType::kF32), format, blocks};
  pair.Run([&](auto part) -> ops::Op { return ops::QuantiseFp8{part(in), part(q.codes), q.Scaling(part)}; });
  return q;
}

class Fp8OnGpu : public GpuTest {};

// Magnitudes that differ much from block to block, from subnormal codes to the largest, and a block of zeros.
inline Values Uneven(Lab& lab, int64_t m, int64_t n) {
  Values values = ValuesOf(lab.Normal({m, n}, DType::kF64));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n;
    values[i] = row / 128 == 1 && column / 128 == 1
                    ? 0
                    : std::ldexp(values[i], static_cast<int>((row / 64 + column / 96 + i % 5 * 2) % 13) - 9);
  }
  return values;
}

// ---- Products ----

struct Options {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = true, accumulate = false, bias = false;
  Fp8Blocks blocks_a = Fp8Blocks::kTensor, blocks_b = Fp8Blocks::kTensor;
  Fp8Format format_a = Fp8Format::kE4M3, format_b = Fp8Format::kE4M3;
  DType out = DType::kF32, bias_type = DType::kF32;
  ops::MatMul::Epilogue epilogue = ops::MatMul::kNone;
  std::string Text() const {
    return StrCat("m ", m, ", n ", n, ", k ", k, transpose_a ? ", a^T" : "", transpose_b ? ", b^T" : "",
                  accumulate ? ", adding" : "", bias ? ", bias" : "", ", blocks ", static_cast<int>(blocks_a), " and ",
                  static_cast<int>(blocks_b), ", formats ", static_cast<int>(format_a), " and ",
                  static_cast<int>(format_b), " to ", Name(out), ", epilogue ", static_cast<int>(epilogue));
  }
};

struct Outputs {
  Twin out, aux;
  double terms = 0;  // a bound of the sum of the magnitudes of an element's terms
};

// `values(lab, rows, columns)`: elements of the operands.
template <class Values_>
Outputs Multiply(Pair& pair, const Options& o, Values_ values, double bias_size) {
  const Shape a_shape = o.transpose_a ? Shape{o.k, o.m} : Shape{o.m, o.k},
              b_shape = o.transpose_b ? Shape{o.n, o.k} : Shape{o.k, o.n}, shape{o.m, o.n};
  const Values of_a = values(pair.lab, a_shape[0], a_shape[1]), of_b = values(pair.lab, b_shape[0], b_shape[1]);
  const Quantised a = Quantise(pair, pair.Of(a_shape, DType::kF32, of_a), o.format_a, o.blocks_a),
                  b = Quantise(pair, pair.Of(b_shape, DType::kF32, of_b), o.format_b, o.blocks_b);
  const auto some = [&](const Shape& s, DType type) {
    Values v(At(s.numel()));
    for (size_t i = 0; i < v.size(); ++i) v[i] = bias_size * (static_cast<double>(i % 11) - 5);
    return pair.Of(s, type, v);
  };
  const Twin bias = o.bias ? some({o.n}, o.bias_type) : Twin();
  Outputs outputs{o.accumulate ? some(shape, o.out) : pair.Blank(shape, o.out), {}};
  if (o.epilogue == ops::MatMul::kGelu) outputs.aux = pair.Blank(shape, o.out);
  if (o.epilogue == ops::MatMul::kGeluSlope) outputs.aux = some(shape, o.out);
  double largest_a = 0, largest_b = 0;
  for (const double x : of_a) largest_a = std::max(largest_a, std::abs(x));
  for (const double x : of_b) largest_b = std::max(largest_b, std::abs(x));
  outputs.terms = static_cast<double>(o.k) * largest_a * largest_b + 10 * std::abs(bias_size);
  pair.Run([&](auto part) -> ops::Op {
    return ops::MatMul{part(a.codes),
                       part(b.codes),
                       part(outputs.out),
                       o.bias ? part(bias) : Tensor(),
                       o.transpose_a,
                       o.transpose_b,
                       o.accumulate,
                       o.epilogue,
                       o.epilogue == ops::MatMul::kNone ? Tensor() : part(outputs.aux),
                       a.Scaling(part),
                       b.Scaling(part)};
  });
  return outputs;
}

// Whole numbers up to 3, times a power of two that differs from block to block: sums of their products are exact with
// eleven bits, which all tensor cores keep, and sums of blocks in F32.
inline Values Whole(Lab& lab, int64_t rows, int64_t columns) {
  Values values(At(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
    values[i] =
        std::ldexp(static_cast<double>(lab.rng() % 7) - 3, static_cast<int>((row / 128 + 2 * (column / 128)) % 4));
  }
  return values;
}

// What sums of tensor cores may be off by, relative to the sum of the terms' magnitudes: F32's rounding, or, with FP8
// instructions of a GPU, 13 bits of the largest term.
inline double OfSums() {
#ifdef TWOFOLD_EMULATED_CUDA
  return 4e-6;
#else
  return 0x1p-12;
#endif
}
inline double HalfUnit(DType type) { return type == DType::kBF16 ? 0x1p-8 : type == DType::kF16 ? 0x1p-11 : 0x1p-23; }

inline void ExpectClose(const Twin& t, double terms, double sums) {
  const std::string bits = Pair::Read(t.gpu);
  Values got(At(t.gpu.numel()));
  cpu::Convert(bits.data(), t.gpu.dtype(), got.data(), DType::kF64, t.gpu.numel());
  const Values want = ValuesOf(t.cpu);
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) {  // an infinity, or the difference of two
      EXPECT_FALSE(std::isfinite(got[i])) << i;
      continue;
    }
    ASSERT_NEAR(got[i], want[i], 2 * HalfUnit(t.gpu.dtype()) * std::abs(want[i]) + sums * terms)
        << "element " << i << " of " << t.gpu.ToString();
  }
}

}  // namespace fp8_test
}  // namespace twofold
