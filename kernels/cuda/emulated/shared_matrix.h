// Where the elements of a matrix in shared memory are that a product's descriptor describes (PTX ISA 8.x, "Asynchronous
// Warpgroup Level Matrix Shared Memory Layout", "Strides", "Matrix Descriptor Format"). The layouts are those that
// CUTLASS calls canonical (cute/atom/mma_traits_sm90_gmma.hpp).
//
// A chunk is 16 bytes, 8 elements of 16 bits. Along the major dimension, W chunks (1, 2, 4 or 8 without swizzle or with
// that of 32, 64 or 128 bytes) form a row of the pattern, and eight such rows a pattern.
#pragma once

#include <cstdint>

namespace twofold::emulated {

inline constexpr uint32_t kChunkBytes = 16;

struct SharedMatrix {
  uint32_t address;          // of the first element
  uint32_t leading, stride;  // bytes
  int base_offset;           // of the pattern's first row, when patterns do not begin at multiples of their size
  int width;                 // W: chunks in a row of the pattern

  static SharedMatrix Of(uint64_t descriptor);

  // The address of the chunk of row `mn` (of A, or column of B) that holds k = 8 * chunk ... + 7. K-major.
  uint32_t ChunkAlongK(int mn, int chunk) const;
  // The address of the chunk at `k` that holds rows (of A, or columns of B) 8 * chunk ... + 7. MN-major.
  uint32_t ChunkAlongMn(int chunk, int k) const;
};

// The address of the chunk at `address` under the swizzle of rows of `width` chunks: the chunk's number within the row
// is XORed with the number of the 128-byte line.
uint32_t Swizzled(uint32_t address, int width, int base_offset);

}  // namespace twofold::emulated
