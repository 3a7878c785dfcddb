// Transposes codes of 8 bits, for products that cuBLASLt has only of operands that lie along the sum.
//
// A block copies a tile of 128 x 128. A thread loads 16 columns of four rows, and turns them into words of four rows of
// one column. In shared memory these are the rows of the transposed tile, from which it stores 16 bytes at once. Eight
// threads load and store 128 neighbouring bytes. So every byte is read once and written once.
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

constexpr int kTransposeThreads = 256, kTransposeSide = 128;
constexpr int kChunk = 16, kChunks = kTransposeSide / kChunk;  // bytes of a load, and loads of a tile's row
constexpr int kTogether = 4;                                   // rows of a thread
static_assert(kChunks * kTransposeSide / kTogether == kTransposeThreads);

// The place of a chunk of 16 bytes of a row of the transposed tile. Chunks are permuted within rows such that neither
// the words that a warp puts there nor the chunks that it takes have bank conflicts.
__device__ inline int TurnedAt(int row, int chunk) {
  return row * kTransposeSide + ((chunk ^ row / kChunk) % kChunks) * kChunk;
}

__device__ inline void LoadTurned(const CodesCopy& copy, int64_t row, int64_t column, uint8_t* tile) {
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % kChunks, first = thread / kChunks * kTogether;
  if (row + first >= copy.rows || column + chunk * kChunk >= copy.columns) return;
  const uint8_t* const from = copy.from + (row + first) * copy.columns + column + chunk * kChunk;
  uint32_t words[kChunk / 4][kTogether];  // of four columns, the rows
#pragma unroll
  for (int r = 0; r < kTogether; ++r) {
    const uint4 loaded = *reinterpret_cast<const uint4*>(from + r * copy.columns);
    words[0][r] = loaded.x, words[1][r] = loaded.y, words[2][r] = loaded.z, words[3][r] = loaded.w;
  }
#pragma unroll
  for (int w = 0; w < kChunk / 4; ++w) {
    TransposeBytes(words[w]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int turned = chunk * kChunk + 4 * w + i;
      *reinterpret_cast<uint32_t*>(tile + TurnedAt(turned, first / kChunk) + first % kChunk) = words[w][i];
    }
  }
}

__device__ inline void StoreTurned(const CodesCopy& copy, int64_t row, int64_t column, const uint8_t* tile) {
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % kChunks;
  if (row + chunk * kChunk >= copy.rows) return;
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    const int turned = thread / kChunks + i * (kTransposeSide / kTogether);
    if (column + turned >= copy.columns) return;
    *reinterpret_cast<uint4*>(copy.to + (column + turned) * copy.rows + row + chunk * kChunk) =
        *reinterpret_cast<const uint4*>(tile + TurnedAt(turned, chunk));
  }
}

// The first `of_a` blocks have the tiles of `a`.
__global__ void __launch_bounds__(kTransposeThreads) TransposeTiles(CodesCopy a, CodesCopy b, int64_t of_a) {
  uint8_t* const tile = DynamicShared<uint8_t>();
  const bool is_a = blockIdx.x < of_a;
  const CodesCopy copy = is_a ? a : b;
  const int64_t index = is_a ? blockIdx.x : blockIdx.x - of_a, across = CeilDiv(copy.columns, kTransposeSide);
  const int64_t row = index / across * kTransposeSide, column = index % across * kTransposeSide;
  LoadTurned(copy, row, column, tile);
  __syncthreads();
  StoreTurned(copy, row, column, tile);
}

}  // namespace

void TransposeCodes(const CodesCopy& a, const CodesCopy& b, const Context& c) {
  const auto tiles = [](const CodesCopy& copy) {
    return CeilDiv(copy.rows, kTransposeSide) * CeilDiv(copy.columns, kTransposeSide);
  };
  Launch(TransposeTiles, static_cast<unsigned>(tiles(a) + tiles(b)), kTransposeThreads, kTransposeSide * kTransposeSide,
         c.stream, a, b, tiles(a));
}

}  // namespace twofold::cuda
