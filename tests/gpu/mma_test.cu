// The instructions of mma.h by themselves: what lies where, on both kinds of tensor core, real and emulated.
#include "kernels/cuda/mma.h"

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
