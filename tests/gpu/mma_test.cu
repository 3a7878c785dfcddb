// The instructions of mma.h by themselves: what lies where, on both kinds of tensor core, real and emulated.
#include "kernels/cuda/mma.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/arrays.h"

namespace twofold::cuda::mma_test {
namespace {

class MmaTest : public GpuTest {};

// One warp: c [16, 8] = c + a [16, 16] * b, where b is [16, 8] (its fragments are loaded transposed) or, `by_columns`,
// [8, 16].
template <class T>
__global__ void Product(const T* a, const T* b, float* c, bool by_columns) {
  T* const shared = DynamicShared<T>();  // a, then b
  const int lane = static_cast<int>(threadIdx.x);
  CopyAsync(shared, lane * 8, a + lane * 8, true);
  if (lane < 16) CopyAsync(shared + 256, lane * 8, b + lane * 8, true);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  uint32_t of_a[4], of_b[4];
  LoadMatrices(of_a, shared, lane % 16 * 16 + lane / 16 * 8);
  if (by_columns)
    LoadMatrices(of_b, shared + 256, lane % 8 * 16 + lane / 8 % 2 * 8);
  else
    LoadMatricesTransposed(of_b, shared + 256, lane % 16 * 8);
  const int g = lane / 4, p = lane % 4 * 2;
  float of_c[4] = {c[g * 8 + p], c[g * 8 + p + 1], c[(g + 8) * 8 + p], c[(g + 8) * 8 + p + 1]};
  MultiplyAdd<T>(of_c, of_a, of_b[0], of_b[1]);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + p + i % 2] = of_c[i];
}

template <class T>
void CheckProduct(bool by_columns) {
  OnGpu<T> a(Numbers<T>(256, 1)), b(Numbers<T>(128, 2));
  std::vector<float> start(128);
  for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i);
  OnGpu<float> c(start);
  Launch(Product<T>, dim3(1), dim3(kWarp), 384 * sizeof(T), nullptr, a.get(), b.get(), c.get(), by_columns);
  const std::vector<float>& got = c.Read();
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float want = start[row * 8 + column];
      for (size_t k = 0; k < 16; ++k)
        want += Value(a.here[row * 16 + k]) * Value(b.here[by_columns ? column * 16 + k : k * 8 + column]);
      EXPECT_EQ(got[row * 8 + column], want) << row << ", " << column;
    }
  }
}
TEST_F(MmaTest, ProductOfBf16) { CheckProduct<Bf16>(false); }
TEST_F(MmaTest, ProductOfF16) { CheckProduct<Half>(false); }
TEST_F(MmaTest, ProductByColumns) {
  CheckProduct<Bf16>(true);
  CheckProduct<Half>(true);
}

// Results are operands of the next product: (a b) b, where a b is exact in T.
template <class T>
__global__ void Chain(const T* a, const T* b, float* c) {
  const int lane = static_cast<int>(threadIdx.x);
  T* const shared = DynamicShared<T>();
  CopyAsync(shared, lane * 8, a + lane * 8, true);
  CopyAsync(shared + 256, lane * 8, b + lane * 8, true);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  uint32_t of_a[4], of_b[4];
  LoadMatrices(of_a, shared, lane % 16 * 16 + lane / 16 * 8);
  LoadMatricesTransposed(of_b, shared + 256, lane % 16 * 16 + lane / 16 * 8);
  float left[4] = {}, right[4] = {}, out[4] = {};
  MultiplyAdd<T>(left, of_a, of_b[0], of_b[1]);
  MultiplyAdd<T>(right, of_a, of_b[2], of_b[3]);
  const uint32_t product[4] = {PackTwo<T>(left[0], left[1]), PackTwo<T>(left[2], left[3]),
                               PackTwo<T>(right[0], right[1]), PackTwo<T>(right[2], right[3])};
  MultiplyAdd<T>(out, product, of_b[0], of_b[1]);
  const int g = lane / 4, p = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + p + i % 2] = out[i];
}
template <class T>
void CheckChain() {
  std::vector<T> ones(256, T{0});  // b: two diagonals, so that products stay small
  for (size_t i = 0; i < 16; ++i) ones[i * 16 + i] = ones[i * 16 + (i + 5) % 16] = Of<T>(1);
  OnGpu<T> a(Numbers<T>(256, 3)), b(ones);
  OnGpu<float> c(std::vector<float>(128));
  Launch(Chain<T>, dim3(1), dim3(kWarp), 512 * sizeof(T), nullptr, a.get(), b.get(), c.get());
  const std::vector<float>& got = c.Read();
  const auto at = [&](size_t row, size_t k) { return Value(a.here[row * 16 + k % 16]); };
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(got[row * 8 + column], at(row, column) + 2 * at(row, column + 11) + at(row, column + 6))
          << row << ", " << column;
    }
  }
}
TEST_F(MmaTest, ResultsAreOperands) {
  CheckChain<Bf16>();
  CheckChain<Half>();
}

// ---- FP8 codes ----

using ops::Fp8Format;

// One warp: c [16, 8] = c + a [16, 32] * b^T, where b is [8, 32].
template <Fp8Format kA, Fp8Format kB, bool kWidened>
__global__ void ProductOfCodes(const uint8_t* a, const uint8_t* b, float* c) {
  uint8_t* const shared = DynamicShared<uint8_t>();  // a, then b
  const int lane = static_cast<int>(threadIdx.x);
  CopyAsync(shared, lane * 16, a + lane * 16, true);
  if (lane < 16) CopyAsync(shared + 512, lane * 16, b + lane * 16, true);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  uint32_t of_a[4], of_b[4];
  LoadMatrices(of_a, shared, lane % 16 * 32 + lane / 16 * 16);
  LoadMatrices(of_b, shared + 512, lane % 8 * 32 + lane / 8 % 2 * 16);
  const int g = lane / 4, p = lane % 4 * 2;
  float of_c[4] = {c[g * 8 + p], c[g * 8 + p + 1], c[(g + 8) * 8 + p], c[(g + 8) * 8 + p + 1]};
  if constexpr (kWidened)
    MultiplyAddWidened<kA, kB>(of_c, of_a, of_b[0], of_b[1]);
  else
    MultiplyAddFp8<kA, kB>(of_c, of_a, of_b[0], of_b[1]);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + p + i % 2] = of_c[i];
}

template <Fp8Format kA, Fp8Format kB, bool kWidened>
void CheckCodes(const std::vector<uint8_t>& codes_a, const std::vector<uint8_t>& codes_b) {
  OnGpu<uint8_t> a(codes_a), b(codes_b);
  std::vector<float> start(128);
  for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 5);
  OnGpu<float> c(start);
  Launch(ProductOfCodes<kA, kB, kWidened>, dim3(1), dim3(kWarp), 768, nullptr, a.get(), b.get(), c.get());
  const std::vector<float>& got = c.Read();
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float want = start[row * 8 + column];
      for (size_t k = 0; k < 32; ++k)
        want += ops::rules::FromFp8(codes_a[row * 32 + k], kA) * ops::rules::FromFp8(codes_b[column * 32 + k], kB);
      const float is = got[row * 8 + column];
      EXPECT_TRUE(want == is || (std::isnan(want) && std::isnan(is)))
          << row << ", " << column << ": " << is << ", not " << want;
    }
  }
}
template <Fp8Format kA, Fp8Format kB>
void CheckCodes() {
  const auto both = [](const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
    CheckCodes<kA, kB, false>(a, b);
    CheckCodes<kA, kB, true>(a, b);
  };
  std::mt19937 random(TestSeed(5));
  const auto numbers = [&](size_t count, auto code) {  // whole numbers up to 3
    std::vector<uint8_t> codes(count);
    for (uint8_t& x : codes) x = code(static_cast<float>(static_cast<int>(random() % 7) - 3));
    return codes;
  };
  const auto of_a = [](float x) { return ops::rules::ToFp8<kA>(x); };
  const auto of_b = [](float x) { return ops::rules::ToFp8<kB>(x); };
  both(numbers(512, of_a), numbers(256, of_b));
  // All codes of either operand, each multiplied by 1. A row has one code beside zeros, because NaN times 0 is NaN.
  for (int first = 0; first < 256; first += 32) {
    std::vector<uint8_t> all(512), ones(256, 0);
    for (size_t i = 0; i < 512; ++i) all[i] = static_cast<uint8_t>(first + static_cast<int>(i % 32));
    for (size_t one = 0; one < 32; one += 8) {  // column c of the result: code first + one + c
      for (size_t i = 0; i < 256; ++i) ones[i] = of_b(i % 32 == one + i / 32 ? 1.0f : 0.0f);
      std::vector<uint8_t> alone(512, 0);
      for (size_t row = 0; row < 16; ++row) alone[row * 32 + one + row % 8] = all[one + row % 8];
      both(alone, ones);
      std::vector<uint8_t> units(512, 0), codes(256, 0);
      for (size_t row = 0; row < 16; ++row) units[row * 32 + one + row % 8] = of_a(1.0f);
      for (size_t column = 0; column < 8; ++column) codes[column * 32 + one + column] = all[one + column];
      both(units, codes);
    }
  }
}
TEST_F(MmaTest, ProductsOfCodes) {
  CheckCodes<Fp8Format::kE4M3, Fp8Format::kE4M3>();
  CheckCodes<Fp8Format::kE4M3, Fp8Format::kE5M2>();
  CheckCodes<Fp8Format::kE5M2, Fp8Format::kE4M3>();
  CheckCodes<Fp8Format::kE5M2, Fp8Format::kE5M2>();
}

// Four matrices [8, 8] whose rows lie apart: fragment i of a lane is of matrix i.
__global__ void Load(const Half* from, uint32_t* to, bool transposed) {
  constexpr int kRow = 24;  // elements between rows
  Half* const shared = DynamicShared<Half>();
  const int lane = static_cast<int>(threadIdx.x);
  CopyAsync(shared, lane * kRow, from + lane * 8, true);
  CommitCopies();
  WaitForCopies<0>();
  __syncwarp();
  uint32_t loaded[4];
  if (transposed)
    LoadMatricesTransposed(loaded, shared, lane * kRow);
  else
    LoadMatrices(loaded, shared, lane * kRow);
  for (int i = 0; i < 4; ++i) to[lane * 4 + i] = loaded[i];
}
TEST_F(MmaTest, Fragments) {
  std::vector<Half> elements(256);
  for (size_t i = 0; i < elements.size(); ++i) elements[i].bits = static_cast<uint16_t>(i + 1);
  for (const bool transposed : {false, true}) {
    OnGpu<Half> from(elements);
    OnGpu<uint32_t> to(std::vector<uint32_t>(128));
    Launch(Load, dim3(1), dim3(kWarp), 32 * 24 * sizeof(Half), nullptr, from.get(), to.get(), transposed);
    const std::vector<uint32_t>& got = to.Read();
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t matrix = 0; matrix < 4; ++matrix) {
        const size_t g = lane / 4, p = lane % 4 * 2, base = matrix * 64 + 1;
        const size_t first = transposed ? p * 8 + g : g * 8 + p, second = transposed ? (p + 1) * 8 + g : g * 8 + p + 1;
        EXPECT_EQ(got[lane * 4 + matrix], base + first + ((base + second) << 16))
            << "lane " << lane << " matrix " << matrix;
      }
    }
  }
}

// A copy that is not there leaves zeros, of 16 bytes and of one number.
__global__ void CopySome(const float* from, float* to) {
  float* const shared = DynamicShared<float>();
  const int lane = static_cast<int>(threadIdx.x);
  CopyAsync(shared, lane * 4, from + lane * 4, lane % 3 != 0);
  CommitCopies();
  CopyAsync(shared + 128 + lane, from + lane, lane % 2 == 0);
  CommitCopies();
  WaitForCopies<1>();
  __syncwarp();
  for (int i = 0; i < 4; ++i) to[lane * 4 + i] = shared[lane * 4 + i];
  WaitForCopies<0>();
  __syncwarp();
  to[128 + lane] = shared[128 + lane];
}
TEST_F(MmaTest, Copies) {
  std::vector<float> numbers(128);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  OnGpu<float> from(numbers), to(std::vector<float>(160));
  Launch(CopySome, dim3(1), dim3(kWarp), 160 * sizeof(float), nullptr, from.get(), to.get());
  const std::vector<float>& got = to.Read();
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], i / 4 % 3 != 0 ? numbers[i] : 0.0f) << i;
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[128 + i], i % 2 == 0 ? numbers[i] : 0.0f) << i;
}

}  // namespace
}  // namespace twofold::cuda::mma_test
