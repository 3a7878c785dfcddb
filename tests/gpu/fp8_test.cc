// FP8 on a GPU against the CPU: codes and scales to the bit, and products, to the bit where every sum is exact.
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/capability.h"
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
Gpu& TheGpu() {
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
    runs_.Launch(runs_.compute(), op);
    runs_.compute().Synchronize();
  }

  Lab lab;

 private:
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
Quantised Quantise(Pair& pair, const Twin& in, Fp8Format format, Fp8Blocks blocks) {
  const int64_t m = in.cpu.dim(0), n = in.cpu.dim(1);
  Quantised q{pair.Blank({m, n}, DType::kU8), pair.Blank(ops::Fp8Scales(blocks, m, n), DType::kF32), format, blocks};
  pair.Run([&](auto part) -> ops::Op { return ops::QuantiseFp8{part(in), part(q.codes), q.Scaling(part)}; });
  return q;
}

// In its two halves, which differ in nothing.
Quantised QuantiseInHalves(Pair& pair, const Twin& in, Fp8Format format) {
  using ops::QuantiseFp8;
  const Twin largest = pair.Blank({1, 1}, DType::kI32);
  Quantised q{pair.Blank({in.cpu.dim(0), in.cpu.dim(1)}, DType::kU8), pair.Blank({1, 1}, DType::kF32), format,
              Fp8Blocks::kTensor};
  pair.Run([&](auto part) -> ops::Op {
    return QuantiseFp8{
        .in = part(in), .codes = {}, .scaling = {}, .part = QuantiseFp8::kLargest, .largest = part(largest)};
  });
  pair.Run([&](auto part) -> ops::Op {
    return QuantiseFp8{.in = part(in),
                       .codes = part(q.codes),
                       .scaling = q.Scaling(part),
                       .part = QuantiseFp8::kCodes,
                       .largest = part(largest)};
  });
  return q;
}

std::string NameOf(Fp8Format format, Fp8Blocks blocks, DType type, int64_t m, int64_t n, int64_t offset) {
  return StrCat(format == Fp8Format::kE4M3 ? "E4M3" : "E5M2", ", blocks ", static_cast<int>(blocks), ", ", Name(type),
                " [", m, ", ", n, "], offset ", offset);
}

class Fp8OnGpu : public GpuTest {};

// Magnitudes that differ much from block to block, from subnormal codes to the largest, and a block of zeros.
Values Uneven(Lab& lab, int64_t m, int64_t n) {
  Values values = ValuesOf(lab.Normal({m, n}, DType::kF64));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n;
    values[i] = row / 128 == 1 && column / 128 == 1
                    ? 0
                    : std::ldexp(values[i], static_cast<int>((row / 64 + column / 96 + i % 5 * 2) % 13) - 9);
  }
  return values;
}

void ExpectSameBits(const Quantised& q) {
  EXPECT_TRUE(Pair::Read(q.scales.gpu) == BitsOf(q.scales.cpu)) << "scales differ";
  EXPECT_TRUE(Pair::Read(q.codes.gpu) == BitsOf(q.codes.cpu)) << "codes differ";
}

TEST_F(Fp8OnGpu, IsRoundedToAsOnTheCpu) {
  constexpr int64_t kSizes[][2] = {{1, 1},     {1, 130},  {130, 1},   {3, 257},  {128, 128},
                                   {129, 384}, {257, 36}, {300, 200}, {5, 5000}, {0, 7}};
  for (const DType type : kNarrow) {
    for (const auto& [m, n] : kSizes) {
      for (const Fp8Format format : kFormats) {
        for (const Fp8Blocks blocks : kBlocks) {
          for (const int64_t offset : {0, 1}) {
            SCOPED_TRACE(NameOf(format, blocks, type, m, n, offset));
            Pair pair(offset);
            const Twin in = pair.Of({m, n}, type, Uneven(pair.lab, m, n));
            ExpectSameBits(Quantise(pair, in, format, blocks));
            if (blocks == Fp8Blocks::kTensor) ExpectSameBits(QuantiseInHalves(pair, in, format));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// More parts than a block has threads, and more codes than all blocks take at once.
TEST_F(Fp8OnGpu, LargeTensorsAreRoundedAsOnTheCpu) {
  constexpr int64_t kElements = (int64_t{1} << 20) + 5 * 4096 + 3;
  for (const int64_t offset : {0, 1}) {
    Pair pair(offset);
    Tensor in = pair.lab.Blank({1, kElements}, DType::kBF16);
    auto* const bits = static_cast<uint16_t*>(in.raw());
    for (int64_t i = 0; i < kElements; ++i)
      bits[i] = static_cast<uint16_t>(0x3f80 + i % 251 - (i % 3 == 0 ? 0x8000 : 0));
    bits[kElements - 1] = 0x4283;  // the largest, in the last part
    ExpectSameBits(Quantise(pair, pair.On(in), kFormats[offset], Fp8Blocks::kTensor));
    ExpectSameBits(QuantiseInHalves(pair, pair.On(in), kFormats[offset]));
  }
}

// All numbers of BF16, which are more than the codes and the boundaries between them. In blocks of rows and columns
// each lies beside its neighbours; beside a whole tensor's largest, those that are larger, or not finite, are left out.
TEST_F(Fp8OnGpu, RoundsEveryBf16AsOnTheCpu) {
  for (const Fp8Format format : kFormats) {
    for (const Fp8Blocks blocks : kBlocks) {
      SCOPED_TRACE(NameOf(format, blocks, DType::kBF16, 512, 128, 0));
      Pair pair(0);
      const Tensor all = pair.lab.Blank({512, 128}, DType::kBF16);
      auto* const bits = static_cast<uint16_t*>(all.raw());
      for (int i = 0; i < 65536; ++i) {
        const int number = blocks == Fp8Blocks::kColumn ? i % 128 * 512 + i / 128 : i;
        constexpr int kMost = 0x4780;  // 65536
        const bool larger = blocks != Fp8Blocks::kColumn && blocks != Fp8Blocks::kRow && (number & 0x7fff) > kMost;
        bits[i] = static_cast<uint16_t>(larger ? 0 : number);
      }
      ExpectSameBits(Quantise(pair, pair.On(all), format, blocks));
    }
  }
}

TEST_F(Fp8OnGpu, BlocksWithANumberThatIsNotFiniteAreThoseOfTheCpu) {
  constexpr int64_t m = 200, n = 260;
  constexpr double kBad[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN()};
  for (const DType type : kNarrow) {
    for (const double bad : kBad) {
      for (const Fp8Format format : kFormats) {
        for (const Fp8Blocks blocks : kBlocks) {
          SCOPED_TRACE(NameOf(format, blocks, type, m, n, 0));
          Pair pair(0);
          Values values = Uneven(pair.lab, m, n);
          values[At(130 * n + 7)] = bad;
          ExpectSameBits(Quantise(pair, pair.Of({m, n}, type, values), format, blocks));
        }
      }
    }
  }
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
Values Whole(Lab& lab, int64_t rows, int64_t columns) {
  Values values(At(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
    values[i] =
        std::ldexp(static_cast<double>(lab.rng() % 7) - 3, static_cast<int>((row / 128 + 2 * (column / 128)) % 4));
  }
  return values;
}

void ExpectExact(const Options& o, int64_t offset) {
  SCOPED_TRACE(StrCat(o.Text(), ", offset ", offset));
  Pair pair(offset);
  const Outputs got = Multiply(pair, o, Whole, 1);
  EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
}

constexpr int64_t kSizes[][3] = {{1, 1, 1}, {5, 7, 3}, {33, 66, 130}, {130, 70, 255}, {64, 129, 300}, {160, 144, 272}};

// A third of the variants, six in a row; with TWOFOLD_TEST_FULL=1 all.
TEST_F(Fp8OnGpu, ProductsWithExactSumsAreThoseOfTheCpu) {
  const bool all = std::getenv("TWOFOLD_TEST_FULL") != nullptr;
  int variant = 0;
  for (const auto& [m, n, k] : kSizes) {
    for (int way = 0; way < 4; ++way) {
      for (const Fp8Blocks a : kBlocks) {
        for (const Fp8Blocks b : kBlocks) {
          if (++variant / 6 % 3 != 0 && !all) continue;
          ExpectExact({.m = m,
                       .n = n,
                       .k = k,
                       .transpose_a = (way & 1) != 0,
                       .transpose_b = (way & 2) != 0,
                       .accumulate = variant % 3 == 0,
                       .bias = variant % 2 == 0,
                       .blocks_a = a,
                       .blocks_b = b,
                       .format_a = kFormats[variant / 2 % 2],
                       .format_b = kFormats[variant / 5 % 2],
                       .out = kNarrow[variant % 3],
                       .bias_type = kNarrow[variant / 3 % 3]},
                      variant % 4 == 0 ? 1 : 0);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(Fp8OnGpu, ProductsOfNothing) {
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{3, 5, 0}, {0, 5, 3}, {3, 0, 4}}) {
    for (const bool more : {false, true}) ExpectExact({.m = m, .n = n, .k = k, .accumulate = more, .bias = more}, 0);
  }
}

// What sums of tensor cores may be off by, relative to the sum of the terms' magnitudes: F32's rounding, or, with FP8
// instructions of a GPU, 13 bits of the largest term.
double OfSums() {
#ifdef TWOFOLD_EMULATED_CUDA
  return 4e-6;
#else
  return 0x1p-12;
#endif
}
double HalfUnit(DType type) { return type == DType::kBF16 ? 0x1p-8 : type == DType::kF16 ? 0x1p-11 : 0x1p-23; }

void ExpectClose(const Twin& t, double terms, double sums) {
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

TEST_F(Fp8OnGpu, ProductsOfAnyNumbersAreCloseToTheCpus) {
  int variant = 0;
  for (const auto& [m, n, k] : kSizes) {
    for (int way = 0; way < 3; ++way) {  // the products of a layer, with both kinds of scales
      for (const bool blocks : {false, true}) {
        ++variant;
        const Options o{.m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = way == 2,
                        .transpose_b = way == 0,
                        .bias = way == 0,
                        .blocks_a = !blocks    ? Fp8Blocks::kTensor
                                    : way == 2 ? Fp8Blocks::kColumn
                                               : Fp8Blocks::kRow,
                        .blocks_b = !blocks    ? Fp8Blocks::kTensor
                                    : way == 2 ? Fp8Blocks::kColumn
                                               : Fp8Blocks::kSquare,
                        .format_a = !blocks && way > 0 ? Fp8Format::kE5M2 : Fp8Format::kE4M3,
                        .out = kNarrow[variant % 3]};
        SCOPED_TRACE(o.Text());
        Pair pair(0);
        const Outputs got = Multiply(pair, o, Uneven, 0.25);
        ExpectClose(got.out, got.terms, OfSums());
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Fp8OnGpu, EpiloguesAreThoseOfTheCpu) {
  const auto small = [](Lab& lab, int64_t rows, int64_t columns) {
    return ValuesOf(lab.Normal({rows, columns}, DType::kF64, 0.2));
  };
  for (const DType out : kNarrow) {
    for (const int64_t n : {64, 65}) {
      for (const auto epilogue : {ops::MatMul::kGelu, ops::MatMul::kGeluSlope}) {
        const Options o{
            .m = 37, .n = n, .k = 150, .bias = epilogue == ops::MatMul::kGelu, .out = out, .epilogue = epilogue};
        SCOPED_TRACE(o.Text());
        Pair pair(0);
        const Outputs got = Multiply(pair, o, small, 0.25);
        // A sum on the boundary may be rounded to either side, and GELU's slope is at most 1.13.
        const double both = 4 * HalfUnit(out);
        ExpectClose(got.out, 8, both + OfSums());
        if (epilogue == ops::MatMul::kGelu) ExpectClose(got.aux, 8, both + OfSums());
      }
    }
  }
}

// ---- Those that cuBLASLt is asked for ----

constexpr Options kForward[] = {
    {.m = 16, .n = 16, .k = 16},
    {.m = 48, .n = 144, .k = 272, .format_a = Fp8Format::kE5M2},
    {.m = 16, .n = 272, .k = 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare},
    {.m = 144, .n = 48, .k = 5 * 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare},
    {.m = 272, .n = 160, .k = 4 * 128, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare}};

// Whether there was a note of a kernel of these options, and what it said.
std::string Told(const Gpu& gpu, std::string_view kernel) {
  for (const std::string& note : gpu.notes) {
    if (note.starts_with(StrCat(std::string(kernel), ": "))) return note.substr(kernel.size() + 2);
  }
  return "nothing";
}
std::string NameOf(const Options& o, std::string_view kind) {
  return StrCat(o.blocks_a == Fp8Blocks::kTensor ? "matmul_fp8_" : "matmul_fp8_block_", std::string(kind));
}
// The emulated library does what it is asked for. The emulated GPU is Hopper or, with TWOFOLD_EMULATED_CAPABILITY=100,
// Blackwell.
bool HasLayouts() { return cuda::CapabilityOf(0).major == 10; }
void ExpectOfLibrary(const Gpu& gpu, const Options& o, std::string_view kind) {
  const std::string kernel = NameOf(o, kind);
#ifdef TWOFOLD_EMULATED_CUDA
  const bool forward = !o.transpose_a && o.transpose_b, blocks = o.blocks_a != Fp8Blocks::kTensor;
  if (blocks ? forward && !HasLayouts() : forward || HasLayouts()) {
    EXPECT_EQ(Told(gpu, kernel), "cuBLASLt's kernels") << kernel;
  } else {
    EXPECT_THAT(Told(gpu, kernel), testing::StartsWith("own kernels (cuBLASLt has ")) << kernel;
  }
#else
  EXPECT_NE(Told(gpu, kernel), "nothing") << kernel;
#endif
}

TEST_F(Fp8OnGpu, ForwardProductsOfTheLibraryAreThoseOfTheCpu) {
  Gpu gpu;
  for (Options o : kForward) {
    for (const DType out : kNarrow) {
      for (const bool more : {false, true}) {
        o.out = o.bias_type = out, o.bias = more, o.accumulate = more;
        SCOPED_TRACE(o.Text());
        gpu.notes.clear();
        Pair pair(0, &gpu.device);
        const Outputs got = Multiply(pair, o, Whole, 1);
        EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
        const Outputs any = Multiply(pair, o, Uneven, 0.25);
        ExpectClose(any.out, any.terms, OfSums());
        if (HasFailure()) return;
      }
    }
  }
}

// A gradient of the input, and one of the weight, which is added to others.
TEST_F(Fp8OnGpu, BackwardProductsOfTheLibraryAreThoseOfTheCpu) {
  for (const bool weight : {false, true}) {
    for (const bool blocks : {false, true}) {
      const Options o{.m = 48,
                      .n = 144,
                      .k = 272,
                      .transpose_a = weight,
                      .transpose_b = false,
                      .accumulate = weight,
                      .blocks_a = !blocks  ? Fp8Blocks::kTensor
                                  : weight ? Fp8Blocks::kColumn
                                           : Fp8Blocks::kRow,
                      .blocks_b = !blocks  ? Fp8Blocks::kTensor
                                  : weight ? Fp8Blocks::kColumn
                                           : Fp8Blocks::kSquare,
                      .format_a = blocks ? Fp8Format::kE4M3 : Fp8Format::kE5M2,
                      .out = weight ? DType::kF32 : DType::kBF16};
      SCOPED_TRACE(o.Text());
      Gpu gpu;
      Pair pair(0, &gpu.device);
      const Outputs got = Multiply(pair, o, Whole, 1);
      EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
      ExpectOfLibrary(gpu, o, weight ? "tn" : "nn");
      const Outputs any = Multiply(pair, o, Uneven, 0.25);
      ExpectClose(any.out, any.terms, OfSums());
    }
  }
}

TEST_F(Fp8OnGpu, NotesSayWhoseKernelsRan) {
  for (const Options& o : kForward) {
    SCOPED_TRACE(o.Text());
    Gpu gpu, own({.own_fp8 = true});
    Pair pair(0, &gpu.device), other(0, &own.device);
    const Outputs got = Multiply(pair, o, Whole, 1), want = Multiply(other, o, Whole, 1);
    ExpectOfLibrary(gpu, o, "nt");
    EXPECT_EQ(Told(own, NameOf(o, "nt")), "own kernels (cuda.fp8: OWN)");
    EXPECT_TRUE(Pair::Read(got.out.gpu) == Pair::Read(want.out.gpu)) << "they differ";
  }
  Gpu gpu;
  Pair pair(0, &gpu.device);
  Multiply(pair, {.m = 16, .n = 16, .k = 8}, Whole, 1);
  EXPECT_THAT(Told(gpu, "matmul_fp8_nt"), testing::StartsWith("own kernels ("));
#ifdef TWOFOLD_EMULATED_CUDA
  EXPECT_THAT(Told(gpu, "matmul_fp8_nt"), testing::HasSubstr("multiples of 16"));
#endif
}

TEST_F(Fp8OnGpu, EpiloguesBehindTheLibraryAreThoseOfTheCpu) {
  const auto small = [](Lab& lab, int64_t rows, int64_t columns) {
    return ValuesOf(lab.Normal({rows, columns}, DType::kF64, 0.2));
  };
  Gpu gpu;
  for (Options o : kForward) {
    for (const DType out : kNarrow) {
      for (const auto epilogue : {ops::MatMul::kGelu, ops::MatMul::kGeluSlope}) {
        o.out = o.bias_type = out, o.epilogue = epilogue, o.bias = epilogue == ops::MatMul::kGelu;
        SCOPED_TRACE(o.Text());
        Pair pair(0, &gpu.device);
        const Outputs got = Multiply(pair, o, small, 0.25);
        const double terms = 10 + 0.2 * static_cast<double>(o.k), both = 4 * HalfUnit(out);
        ExpectClose(got.out, terms, both + OfSums());
        if (epilogue == ops::MatMul::kGelu) ExpectClose(got.aux, terms, both + OfSums());
      }
    }
    ExpectOfLibrary(gpu, o, "gelu");
    ExpectOfLibrary(gpu, o, "gelu_slope");
    if (HasFailure()) return;
  }
}

// Scales whose products leave the range of F32 on the way: tiny, huge, and one of each.
TEST_F(Fp8OnGpu, ScalesAtTheEndsOfTheRange) {
  for (const auto& [of_a, of_b] :
       {std::pair(-60, -40), {-110, 100}, {100, -110}, {-70, -70}, {-95, -20}, {60, 50}, {80, 70}}) {
    for (const bool zeros : {false, true}) {
      // Terms beyond the range of F32 are summed as codes here, and as infinities on the CPU: one term alone is
      // compared.
      if (of_a + of_b > 120 && !zeros) continue;
      SCOPED_TRACE(StrCat("2^", of_a, " and 2^", of_b, zeros ? ", zeros" : ""));
      bool first = true;
      const auto values = [&](Lab& lab, int64_t rows, int64_t columns) {
        Values values = Whole(lab, rows, columns);
        for (double& x : values) x = zeros && first ? 0.0 : std::ldexp(x, first ? of_a : of_b);
        if (zeros && first) values[0] = std::ldexp(1.0, of_a);
        first = false;
        return values;
      };
      Pair pair(0);
      const Outputs got = Multiply(pair, {.m = 20, .n = 20, .k = 100, .blocks_a = Fp8Blocks::kRow}, values, 0);
      ExpectClose(got.out, got.terms, OfSums());
    }
  }
}

TEST_F(Fp8OnGpu, WhatIsNotFiniteIsSeenInTheResultsItBelongsTo) {
  bool first = true;
  const auto values = [&](Lab& lab, int64_t rows, int64_t columns) {
    Values values = Whole(lab, rows, columns);
    if (first) values[At(2 * columns + 5)] = std::numeric_limits<double>::infinity();
    first = false;
    return values;
  };
  Pair pair(0);
  const Outputs got = Multiply(
      pair, {.m = 5, .n = 6, .k = 200, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare}, values, 0);
  const std::string bits = Pair::Read(got.out.gpu);
  Values of_gpu(30);
  cpu::Convert(bits.data(), DType::kF32, of_gpu.data(), DType::kF64, 30);
  const Values want = ValuesOf(got.out.cpu);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(std::isfinite(of_gpu[i]), i / 6 != 2) << i;
    if (std::isfinite(want[i])) {
      EXPECT_EQ(of_gpu[i], want[i]) << i;
    }
  }
}

}  // namespace fp8_test
}  // namespace twofold
