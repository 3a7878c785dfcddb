// What matrix products take on a GPU whose products were measured: the tiles of gpu_cost_model.h, with figures that were fitted.
//
//   the largest of  tiles (tiled_products.h), flops / flops_per_second, bytes / bytes_per_second;  + kernel_s
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "core/proto/profile.pb.h"
#include "sim/cost/tiled_products.h"

namespace twofold {

struct MeasuredProducts {
  TiledProducts tiles;                    // efficiency: flops per second
  double bytes_per_second = 0, kernel_s = 0, flops_per_second = 0;
  int64_t element_size = 4;
  std::map<int64_t, double> alignments;   // efficiency by bytes that rows are aligned by; 16: 1

  // `kernel`: matmul_nn, matmul_nt, matmul_tn, matmul_tt, matmul_gelu (nt) or matmul_gelu_slope (nn), the dimensions m, n, k. What a GELU
  // adds is not in it.
  double Seconds(std::string_view kernel, const std::array<int64_t, 3>& dims) const;

  // As ReadProfile accepts them.
  static MeasuredProducts From(const profile::Products& products, int64_t multiprocessors);
  // All but dtype and errors.
  profile::Products ToProfile() const;
};

// Whether the kernel is a product of two matrices, one that MeasuredProducts tells.
bool IsProduct(std::string_view kernel);
// By how many bytes, 16 at most, the rows of its operands are aligned.
int64_t AlignmentOf(std::string_view product, const std::array<int64_t, 3>& dims, int64_t element_size);

}  // namespace twofold
