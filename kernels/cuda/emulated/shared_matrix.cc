#include "kernels/cuda/emulated/shared_matrix.h"

namespace twofold::emulated {
namespace {

constexpr int kRowsOfPattern = 8;

}  // namespace

SharedMatrix SharedMatrix::Of(uint64_t descriptor) {
  constexpr int kWidths[4] = {1, 8, 4, 2};
  const auto bytes = [descriptor](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3fff) * kChunkBytes; };
  return {.address = bytes(0),
          .leading = bytes(16),
          .stride = bytes(32),
          .base_offset = static_cast<int>(descriptor >> 49 & 7),
          .width = kWidths[descriptor >> 62]};
}

uint32_t Swizzled(uint32_t address, int width, int base_offset) {
  const uint32_t line = (address >> 7) - static_cast<uint32_t>(base_offset);
  return address ^ (line & static_cast<uint32_t>(width - 1)) * kChunkBytes;
}

uint32_t SharedMatrix::ChunkAlongK(int mn, int chunk) const {
  const auto row = static_cast<uint32_t>(mn % kRowsOfPattern), rows = static_cast<uint32_t>(mn / kRowsOfPattern);
  const uint32_t step = width == 1 ? leading : kChunkBytes;
  const uint32_t at =
      row * static_cast<uint32_t>(width) * kChunkBytes + rows * stride + static_cast<uint32_t>(chunk) * step;
  return Swizzled(address + at, width, base_offset);
}

uint32_t SharedMatrix::ChunkAlongMn(int chunk, int k) const {
  const auto row = static_cast<uint32_t>(k % kRowsOfPattern), rows = static_cast<uint32_t>(k / kRowsOfPattern);
  if (width == 1) return address + static_cast<uint32_t>(chunk) * stride + row * kChunkBytes + rows * leading;
  const auto within = static_cast<uint32_t>(chunk % width), next = static_cast<uint32_t>(chunk / width);
  const uint32_t at = (within + row * static_cast<uint32_t>(width)) * kChunkBytes + next * leading + rows * stride;
  return Swizzled(address + at, width, base_offset);
}

}  // namespace twofold::emulated
