// The innermost loops of convolutions: tiles of results that stay in vector registers.
//
// A tile multiplies single elements of one operand by vectors of channels of the other, one 64-byte vector per panel of
// channels. Every result is one chain of multiply-adds in a fixed order, so a tile's shape does not change the bits.
// convolution_tiles.cc is compiled with contraction into fused multiply-adds, so it includes nothing that other files
// share.
#pragma once

#include <cstdint>

namespace twofold::cpu {

template <class A>
inline constexpr int64_t kVector = 64 / static_cast<int64_t>(sizeof(A));  // elements

// Output pixels of a convolution: for p < pixels and v < panels
//     out[p * out_pixel + v * kVector + l] = start[v * kVector + l] + sum over a < rows, j < run of
//         x[p * x_pixel + a * x_row + j] * w[v * w_panel + (a * run + j) * kVector + l]
// Strides are in elements. `start` null: zero.
template <class A>
struct PixelTile {
  const A* x;
  int64_t x_pixel, x_row, rows, run;
  const A* w;
  int64_t w_panel;
  const A* start;
  A* out;
  int64_t out_pixel;
};

// Weight gradients: for p < elements and v < panels
//     out[p * kVector + v * out_panel + l] += sum over i < images, r < rows, c < columns of
//         x[i * x_image + r * x_row + c * x_pixel + p] * dy[i * dy_image + r * dy_row + c * dy_pixel + v * kVector + l]
template <class A>
struct WeightTile {
  const A* x;
  int64_t x_image, x_row, x_pixel;
  const A* dy;
  int64_t dy_image, dy_row, dy_pixel;
  int64_t images, rows, columns;
  A* out;
  int64_t out_panel;
};

// The most single elements in a tile of 1, 2 or 4 panels: its sums then fill most of 32 registers.
inline constexpr int64_t MostElements(int64_t panels) { return panels == 1 ? 16 : panels == 2 ? 12 : 6; }

// 1 <= count <= MostElements(panels).
void Compute(const PixelTile<float>& tile, int64_t count, int64_t panels);
void Compute(const PixelTile<double>& tile, int64_t count, int64_t panels);
void Compute(const WeightTile<float>& tile, int64_t count, int64_t panels);
void Compute(const WeightTile<double>& tile, int64_t count, int64_t panels);

}  // namespace twofold::cpu
