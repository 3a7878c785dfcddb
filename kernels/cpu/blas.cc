#include "kernels/cpu/blas.h"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <type_traits>

#include "core/base/check.h"

namespace twofold::cpu {
namespace {

// OpenBLAS indexes with int; a leading dimension is at least 1 even where nothing is read.
blasint Int(int64_t n) {
  TWOFOLD_CHECK_LE(n, std::numeric_limits<blasint>::max());
  return static_cast<blasint>(n);
}
blasint Stride(int64_t n) { return Int(std::max<int64_t>(n, 1)); }

template <class A>
void MultiplyAny(const Product<A>& p) {
  if (p.m == 0 || p.n == 0) return;
  const auto gemm = [] {
    if constexpr (std::is_same_v<A, float>)
      return &cblas_sgemm;
    else
      return &cblas_dgemm;
  }();
  gemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
       Int(p.m), Int(p.n), Int(p.k), p.alpha, p.a, Stride(p.lda), p.b, Stride(p.ldb), p.beta, p.c,
       Stride(p.ldc));
}

}  // namespace

void SetBlasThreads(int threads) {
  static std::mutex mutex;  // ranks of one process are made at the same time
  const std::lock_guard lock(mutex);
  if (openblas_get_num_threads() != threads) openblas_set_num_threads(threads);
}

void Multiply(const Product<float>& p) { MultiplyAny(p); }
void Multiply(const Product<double>& p) { MultiplyAny(p); }

}  // namespace twofold::cpu
