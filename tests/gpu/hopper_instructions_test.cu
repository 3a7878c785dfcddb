// The instructions of hopper.h by themselves, on an emulated and on a real GPU of compute capability 9.0: what lies
// where, and what waits for what.
#include <cstdint>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/hopper.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/arrays.h"

namespace twofold::cuda::hopper_instructions_test {
namespace {

class HopperInstructionsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = twofold::WhyNoHopperAttention(0); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

constexpr int kWidths[4] = {1, 8, 4, 2};  // chunks of 16 bytes in a row of the pattern, by a descriptor's bits 62-63

// How a matrix lies in shared memory. Along its major dimension (K, or MN) there are chunks of 16 bytes, 8 elements,
// and across it lines. Patterns are 8 lines of W chunks.
struct Placed {
  int swizzle;        // bits 62-63
  int along, across;  // bytes from one pattern to the next
  int begin;          // bytes, of the first pattern
};
// A descriptor as in the PTX ISA's "Matrix Descriptor Format".
__host__ __device__ inline uint64_t Descriptor(uint32_t address, int leading, int stride, int swizzle) {
  return static_cast<uint64_t>(address >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

#ifdef TWOFOLD_HAS_HOPPER
// The byte, from the aligned beginning of the memory, of element `along`, `across`, counted from the pattern's first.
// 128-byte swizzle: chunks are XORed with the line's number. 64: with half of it, as two lines share 128 bytes. 32:
// with a quarter.
__device__ inline int ByteOf(const Placed& p, int along, int across) {
  const int widths[4] = {1, 8, 4, 2}, width = widths[p.swizzle];
  const int chunk = along / 8 % width, pattern = along / 8 / width, line = across % 8;
  const int by = width == 8 ? line : width == 4 ? line / 2 : width == 2 ? line / 4 : 0;
  return p.begin + pattern * p.along + across / 8 * p.across + line * width * 16 + (chunk ^ by) * 16 + along % 8 * 2;
}

// The dynamic shared memory from its first multiple of 1024 on.
__device__ inline unsigned char* Aligned() {
  unsigned char* shared = DynamicShared<unsigned char>();
  return shared + (1024 - SharedWindow(shared) % 1024) % 1024;
}

// Where a lane's results are: "Register Fragments and Shared Memory Matrix Layouts".
template <int N>
__device__ inline void StoreSums(const float (&d)[N / 8][4], float* to) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpGroup, warp = thread / 32, lane = thread % 32;
  for (int n = 0; n < N / 8; ++n) {
    for (int i = 0; i < 4; ++i) to[(16 * warp + lane / 4 + 8 * (i / 2)) * N + 8 * n + lane % 4 * 2 + i % 2] = d[n][i];
  }
}
#endif

// ---- Products ----

// A warp group: d[64, 128] = start + a[64, depth] * b[128, depth]^T, in one chain of products of 16. `add_first`:
// otherwise the first product ignores `start`.
template <class T, int kDepth>
__global__ void ByShared(const T* a, const T* b, const float* start, float* d, Placed of_a, Placed of_b,
                         bool add_first) {
#ifdef TWOFOLD_HAS_HOPPER
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 64 * kDepth; i += kWarpGroup)
    *reinterpret_cast<T*>(shared + ByteOf(of_a, i % kDepth, i / kDepth)) = a[i];
  for (int i = thread; i < 128 * kDepth; i += kWarpGroup)
    *reinterpret_cast<T*>(shared + ByteOf(of_b, i % kDepth, i / kDepth)) = b[i];
  FenceBarrierInit();  // of which fence.proxy.async is a part
  __syncthreads();
  float sums[16][4];
  const int warp = thread / 32, lane = thread % 32;
  for (int n = 0; n < 16; ++n) {
    for (int i = 0; i < 4; ++i)
      sums[n][i] = start[(16 * warp + lane / 4 + 8 * (i / 2)) * 128 + 8 * n + lane % 4 * 2 + i % 2];
  }
  const uint32_t base = SharedWindow(shared);
  const auto from = [base](const Placed& p, int k) {
    // without the swizzle: where k's chunk would be in the first line
    const int widths[4] = {1, 8, 4, 2}, width = widths[p.swizzle];
    const int at = p.begin + k / 8 / width * p.along + k / 8 % width * 16;
    return Descriptor(base + static_cast<uint32_t>(at), width == 1 ? p.along : 16, p.across, p.swizzle);
  };
  Keep(sums);
  FenceProducts();
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) MultiplyShared<T, 128>(sums, from(of_a, k), from(of_b, k), add_first || k > 0);
  CommitProducts();
  WaitForProducts<0>();
  Keep(sums);
  StoreSums<128>(sums, d);
#endif
}

template <class T, int kDepth>
void CheckByShared(Placed of_a, Placed of_b, bool add_first) {
  const int bytes = of_b.begin + 16 * of_b.across;
  OnGpu<T> a(Numbers<T>(64 * kDepth, 1)), b(Numbers<T>(128 * kDepth, 2));
  std::vector<float> first(64 * 128);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i);
  OnGpu<float> start(first), d(std::vector<float>(first.size(), -1));
  Launch(ByShared<T, kDepth>, dim3(1), dim3(kWarpGroup), static_cast<size_t>(bytes + 1024), nullptr, a.get(), b.get(),
         start.get(), d.get(), of_a, of_b, add_first);
  const std::vector<float>& got = d.Read();
  constexpr size_t kCount = kDepth;
  for (size_t row = 0; row < 64; ++row) {
    for (size_t column = 0; column < 128; ++column) {
      float want = add_first ? first[row * 128 + column] : 0;
      for (size_t k = 0; k < kCount; ++k) want += Value(a.here[row * kCount + k]) * Value(b.here[column * kCount + k]);
      ASSERT_EQ(got[row * 128 + column], want)
          << row << ", " << column << " swizzles " << of_a.swizzle << " and " << of_b.swizzle;
    }
  }
}

// Patterns of a row follow each other, and rows of patterns have a gap.
Placed KMajor(int swizzle, int begin, int depth) {
  const int pattern = 8 * kWidths[swizzle] * 16, patterns = (depth / 8 + kWidths[swizzle] - 1) / kWidths[swizzle];
  return {
      .swizzle = swizzle, .along = pattern, .across = (patterns * pattern + 1023) / 1024 * 1024 + 1024, .begin = begin};
}

TEST_F(HopperInstructionsTest, ProductsOfSharedMemoryInEveryLayout) {
  for (int swizzle_a = 0; swizzle_a < 4; ++swizzle_a) {
    for (int swizzle_b = 0; swizzle_b < 4; ++swizzle_b) {
      const Placed a = KMajor(swizzle_a, 0, 32), b = KMajor(swizzle_b, 8 * a.across, 32);
      CheckByShared<Bf16, 32>(a, b, swizzle_b % 2 == 0);
      CheckByShared<Half, 32>(a, b, swizzle_b % 2 != 0);
    }
  }
}

TEST_F(HopperInstructionsTest, ProductsOfRowsOfTwoPatterns) {
  const Placed a = KMajor(1, 1024, 128), b = KMajor(1, 1024 + 8 * a.across, 128);
  CheckByShared<Bf16, 128>(a, b, true);
  CheckByShared<Half, 128>(a, b, false);
}

// The same for a in registers and b [depth, N], MN-major: d[64, N] = a[64, depth] * b.
template <class T, int N>
__global__ void ByRegisters(const T* a, const T* b, float* d, int depth, Placed of_b) {
#ifdef TWOFOLD_HAS_HOPPER
  unsigned char* const shared = Aligned();
  const int thread = static_cast<int>(threadIdx.x), row = thread / 32 * 16 + thread % 32 / 4, p = thread % 4 * 2;
  for (int i = thread; i < N * depth; i += kWarpGroup)
    *reinterpret_cast<T*>(shared + ByteOf(of_b, i % N, i / N)) = b[i];
  FenceBarrierInit();
  __syncthreads();
  float sums[N / 8][4] = {};
  uint32_t of_a[2][4];
  const uint32_t base = SharedWindow(shared);
  for (int k = 0; k < depth; k += 32) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const T* two = a + (row + r % 2 * 8) * depth + k + 16 * half + p + r / 2 * 8;
        of_a[half][r] = two[0].bits | static_cast<uint32_t>(two[1].bits) << 16;
      }
    }
    Keep(sums);
    FenceProducts();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = of_b.begin + (k / 8 + 2 * half) * of_b.across;
      MultiplyRegisters<T, N>(sums, of_a[half],
                              Descriptor(base + static_cast<uint32_t>(at), of_b.swizzle == 0 ? of_b.across : of_b.along,
                                         of_b.swizzle == 0 ? of_b.along : of_b.across, of_b.swizzle),
                              k + half > 0);
      CommitProducts();
    }
    WaitForProducts<1>();
    WaitForProducts<0>();
    Keep(sums);
  }
  StoreSums<N>(sums, d);
#endif
}

template <class T, int N>
void CheckByRegisters(int swizzle) {
  constexpr size_t kDepth = 64;
  // patterns along N follow those along k, with a gap
  const int pattern = 8 * kWidths[swizzle] * 16, along = static_cast<int>(kDepth) / 8 * pattern + 1024;
  const Placed of_b = {.swizzle = swizzle, .along = along, .across = pattern, .begin = 1024};
  OnGpu<T> a(Numbers<T>(64 * kDepth, 3)), b(Numbers<T>(N * kDepth, 4));
  OnGpu<float> d(std::vector<float>(64 * N, -1));
  Launch(ByRegisters<T, N>, dim3(1), dim3(kWarpGroup), static_cast<size_t>(2048 + N / 8 / kWidths[swizzle] * along),
         nullptr, a.get(), b.get(), d.get(), static_cast<int>(kDepth), of_b);
  const std::vector<float>& got = d.Read();
  for (size_t row = 0; row < 64; ++row) {
    for (size_t column = 0; column < N; ++column) {
      float want = 0;
      for (size_t k = 0; k < kDepth; ++k) want += Value(a.here[row * kDepth + k]) * Value(b.here[k * N + column]);
      ASSERT_EQ(got[row * N + column], want) << row << ", " << column << " swizzle " << swizzle;
    }
  }
}
TEST_F(HopperInstructionsTest, ProductsOfRegistersInEveryLayout) {
  for (int swizzle = 0; swizzle < 4; ++swizzle) {
    CheckByRegisters<Bf16, 64>(swizzle);
    CheckByRegisters<Bf16, 128>(swizzle);
    CheckByRegisters<Half, 64>(swizzle);
    CheckByRegisters<Half, 128>(swizzle);
  }
}

TEST_F(HopperInstructionsTest, Descriptors) {
  EXPECT_EQ(SwizzledMatrix(0x2c400, 0x2000, 0x400), Descriptor(0x2c400, 0x2000, 0x400, 1));
}

// ---- Copies ----

// Reads a tile of `rows` rows of 128 bytes as it lies.
__global__ void CopyOne(const __grid_constant__ TensorMap map, int c0, int c1, int c2, int rows, uint16_t* to) {
#ifdef TWOFOLD_HAS_HOPPER
  unsigned char* const shared = Aligned();
  auto* const tile = reinterpret_cast<uint16_t*>(shared + 1024);
  const uint32_t barrier = SharedWindow(shared);
  if (threadIdx.x == 0) {
    InitBarrier(barrier, 1);
    FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    CopyTile(SharedWindow(tile), map, c0, c1, c2, barrier);
    ArriveAndExpect(barrier, rows * 128);
  }
  WaitForPhase(barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < rows * 64; i += static_cast<int>(blockDim.x)) to[i] = tile[i];
#endif
}

TEST_F(HopperInstructionsTest, TilesInsideAndAcrossEdges) {
  // [7, 5, 100] of a larger tensor: dimension 1 is the outer one in memory
  constexpr uint64_t kSizes[3] = {100, 5, 7};
  constexpr size_t kPerRow = 104, kPerSlice = 7 * kPerRow;
  std::vector<uint16_t> elements(5 * kPerSlice);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint16_t>(i + 1);
  OnGpu<uint16_t> tensor(elements);
  const TensorMap map = Encode({.data = tensor.get(),
                                .sizes = {kSizes[0], kSizes[1], kSizes[2]},
                                .strides = {kPerSlice * 2, kPerRow * 2},
                                .box = {64, 3, 4}});
  const int starts[][3] = {{0, 0, 0}, {8, 2, 3}, {64, 1, 1}, {36, 3, 5}, {-5, -1, -2}, {100, 0, 0}};
  for (const auto& start : starts) {
    OnGpu<uint16_t> got(std::vector<uint16_t>(64 * 12, 0xdead));
    Launch(CopyOne, dim3(1), dim3(64), 3072 + 12 * 128, nullptr, map, start[0], start[1], start[2], 12, got.get());
    const std::vector<uint16_t>& tile = got.Read();
    for (int row = 0; row < 12; ++row) {
      for (int i = 0; i < 64; ++i) {
        const int64_t c0 = start[0] + i, c1 = start[1] + row % 3, c2 = start[2] + row / 3;
        const bool inside = c0 >= 0 && c0 < 100 && c1 >= 0 && c1 < 5 && c2 >= 0 && c2 < 7;
        const size_t from = static_cast<size_t>(c1) * kPerSlice + static_cast<size_t>(c2) * kPerRow;
        ASSERT_EQ(tile[static_cast<size_t>(row * 64 + ((i / 8) ^ (row % 8)) * 8 + i % 8)],
                  inside ? elements[from + static_cast<size_t>(c0)] : 0)
            << row << ", " << i << " of the tile at " << start[0] << ", " << start[1] << ", " << start[2];
      }
    }
  }
}

TEST_F(HopperInstructionsTest, WrongTensors) {
  OnGpu<uint16_t> tensor(std::vector<uint16_t>(64 * 64));
  const TiledTensor right = {.data = tensor.get(), .sizes = {64, 8, 8}, .strides = {128, 1024}, .box = {64, 8, 1}};
  Encode(right);
  TiledTensor wrong = right;
  wrong.data = tensor.get() + 4;
  EXPECT_THROW(Encode(wrong), CudaError);
  wrong = right, wrong.strides[0] = 120;
  EXPECT_THROW(Encode(wrong), CudaError);
  wrong = right, wrong.sizes[1] = 0;
  EXPECT_THROW(Encode(wrong), CudaError);
  wrong = right, wrong.box[1] = 257;
  EXPECT_THROW(Encode(wrong), CudaError);
  wrong = right, wrong.box[0] = 128;
  EXPECT_THROW(Encode(wrong), CudaError);
}

// ---- A pipeline: one warp group copies, two multiply ----

constexpr int kStages = 2, kTile = 64 * 128;  // bytes: 64 rows of 64 elements
constexpr int kPipelineBytes = 2048 + 2 * kTile + kStages * kTile;

// Warp group g of two: d[g][64, 64] = the sum over t of a[g][64, 64] * b[t][64, 64]. It has a in registers.
template <class T>
__global__ void __launch_bounds__(3 * kWarpGroup, 1)
    Pipeline(const __grid_constant__ TensorMap map, const T* a, int tiles, float* d) {
#ifdef TWOFOLD_HAS_HOPPER
  unsigned char* const shared = Aligned();
  const uint32_t barriers = SharedWindow(shared), stages = barriers + 1024;
  const auto full = [barriers](int stage) { return barriers + static_cast<uint32_t>(16 * stage); };
  const auto empty = [barriers](int stage) { return barriers + static_cast<uint32_t>(16 * stage + 8); };
  const int thread = static_cast<int>(threadIdx.x), group = thread / kWarpGroup;
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      InitBarrier(full(stage), 1);
      InitBarrier(empty(stage), 2);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  if (group == 2) {
    LowerRegisters<24>();
    if (thread % kWarpGroup == 0) {
      for (int t = 0; t < tiles; ++t) {
        const int stage = t % kStages, parity = t / kStages % 2;
        WaitForPhase(empty(stage), 1 - parity);
        ArriveAndExpect(full(stage), kTile);
        CopyTile(stages + static_cast<uint32_t>(stage * kTile), map, 0, 0, t, full(stage));
      }
    }
    return;
  }
  RaiseRegisters<240>();
  const int lane = thread % 32, row = thread % kWarpGroup / 32 * 16 + lane / 4, p = lane % 4 * 2;
  uint32_t of_a[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const T* two = a + (group * 64 + row + r % 2 * 8) * 64 + k * 16 + p + r / 2 * 8;
      of_a[k][r] = two[0].bits | static_cast<uint32_t>(two[1].bits) << 16;
    }
  }
  float sums[8][4] = {};
  // The groups take turns: at barrier 1 + group waits the one whose turn it is.
  if (group == 1) ArriveAtBarrier(1, 2 * kWarpGroup);
  for (int t = 0; t < tiles; ++t) {
    const int stage = t % kStages, parity = t / kStages % 2;
    WaitForPhase(full(stage), parity);
    WaitAtBarrier(1 + group, 2 * kWarpGroup);
    Keep(sums);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      MultiplyRegisters<T, 64>(
          sums, of_a[k], SwizzledMatrix(stages + static_cast<uint32_t>(stage * kTile + k * 2048), kTile, 1024), true);
    }
    CommitProducts();
    if (group == 0 || t + 1 < tiles) ArriveAtBarrier(2 - group, 2 * kWarpGroup);
    WaitForProducts<0>();
    Keep(sums);
    WaitAtBarrier(3 + group, kWarpGroup);  // all warps have read the tile
    if (thread % kWarpGroup == 0) Arrive(empty(stage));
  }
  StoreSums<64>(sums, d + group * 64 * 64);
#endif
}

template <class T>
void CheckPipeline() {
  constexpr size_t kTiles = 7;
  OnGpu<T> a(Numbers<T>(2 * 64 * 64, 5)), b(Numbers<T>(kTiles * 64 * 64, 6));
  const TensorMap map =
      Encode({.data = b.get(), .sizes = {64, 64, kTiles}, .strides = {128, 64 * 128}, .box = {64, 64, 1}});
  std::vector<float> want(2 * 64 * 64);
  for (size_t i = 0; i < want.size(); ++i) {
    for (size_t t = 0; t < kTiles * 64; ++t)
      want[i] += Value(a.here[i / 64 * 64 + t % 64]) * Value(b.here[t * 64 + i % 64]);
  }
  for (int time = 0; time < 20; ++time) {  // in orders of their own
    OnGpu<float> d(std::vector<float>(want.size(), -1));
    Launch(Pipeline<T>, dim3(1), dim3(3 * kWarpGroup), static_cast<size_t>(kPipelineBytes), nullptr, map, a.get(),
           static_cast<int>(kTiles), d.get());
    ASSERT_EQ(d.Read(), want);
  }
}
TEST_F(HopperInstructionsTest, APipeline) {
  CheckPipeline<Bf16>();
  CheckPipeline<Half>();
}

}  // namespace
}  // namespace twofold::cuda::hopper_instructions_test
