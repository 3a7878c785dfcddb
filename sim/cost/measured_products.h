// The time of matrix products on a GPU whose products were measured: the tile formula of gpu_cost_model.h with fitted
// figures.
//
// seconds = max(tiles (tiled_products.h), flops / flops_per_second, bytes / bytes_per_second) + kernel_s
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "core/proto/profile.pb.h"
#include "sim/cost/tiled_products.h"

namespace twofold {

struct MeasuredProducts {
  TiledProducts tiles;  // efficiency: flops per second
  double bytes_per_second = 0, kernel_s = 0, flops_per_second = 0;
  int64_t element_size = 4;
  std::map<int64_t, double> alignments;  // efficiency by the rows' alignment in bytes; 16: 1

  // `kernel`: matmul_nn, matmul_nt, matmul_tn, matmul_tt, matmul_gelu (nt) or matmul_gelu_slope (nn); the dimensions
  // are m, n, k. The cost of the GELU is not included.
  double Seconds(std::string_view kernel, const std::array<int64_t, 3>& dims) const;

  // From figures that ReadProfile accepts.
  static MeasuredProducts From(const profile::Products& products, int64_t multiprocessors);
  // Fills in everything except dtype and errors.
  profile::Products ToProfile() const;
};

// Whether the kernel is a product of two matrices that MeasuredProducts supports.
bool IsProduct(std::string_view kernel);
// The alignment of its operands' rows in bytes, at most 16.
int64_t AlignmentOf(std::string_view product, const std::array<int64_t, 3>& dims, int64_t element_size);

}  // namespace twofold
