// The entry points of one compilation of the kernels. Only levels.cc (which chooses one) and level.cc (which fills one
// in) use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/comm/reduce_op.h"
#include "core/device/ops.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/small_product.h"
#include "kernels/cpu/thread_pool.h"

namespace twofold::cpu {

// Every function has the contract of the one of the same name; its header is named beside it.
struct KernelTable {
  // kernels.h: Compute of the operation that `op` holds.
  void (*run)(const ops::AnyOp& op, ThreadPool& pool, std::span<std::byte> scratch);
  // convert.h
  void (*convert)(const void* in, DType from, void* out, DType to, int64_t n);
  // reduce.h
  void (*reduce_slices)(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                        int64_t first, int64_t count);
  void (*divide_all)(void* values, DType dtype, int64_t count, int64_t by);
  // panel_product.h
  int64_t (*panel_scratch)(int64_t m, int64_t n, int64_t k);
  void (*multiply_panels_f32)(const Product<float>& p, const float* bias, float* scratch);
  void (*multiply_panels_f64)(const Product<double>& p, const double* bias, double* scratch);
  // small_product.h
  void (*multiply_small_f32)(const SmallProduct<float>& p);
  void (*multiply_small_f64)(const SmallProduct<double>& p);
  void (*pack_transposed_f32)(const float* x, int64_t ld, int64_t count, int64_t k, float factor, int64_t lanes,
                              float* panel);
  void (*pack_transposed_f64)(const double* x, int64_t ld, int64_t count, int64_t k, double factor, int64_t lanes,
                              double* panel);
};

}  // namespace twofold::cpu
