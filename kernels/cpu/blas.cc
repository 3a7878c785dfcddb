#include "kernels/cpu/blas.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "core/base/check.h"

// Functions that OpenBLAS's library runs when it is loaded (driver/others/dynamic.c): they select the kernels for the
// processor. Weak, because a build for a single processor has neither.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace twofold::cpu {
namespace {

// OpenBLAS identifies processors by their model numbers, and treats unknown newer ones as a Prescott, which makes
// products five times slower. The features that the processor reports are the better guide. If OPENBLAS_CORETYPE is
// set, it takes precedence. This runs before main, while there is only one thread that could read the environment.
[[maybe_unused]] const bool kCoreChosen = [] {
#if defined(__x86_64__)
  const bool unknown = std::string_view(openblas_get_corename()) == "Prescott" && __builtin_cpu_supports("avx2");
  constexpr const char* kName = "OPENBLAS_CORETYPE";
  if (!unknown || std::getenv(kName) != nullptr || !gotoblas_dynamic_init || !gotoblas_dynamic_quit) return false;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  setenv(kName, avx512 ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kName);
  return true;
#else
  return false;
#endif
}();

// OpenBLAS indexes with int; a leading dimension must be at least 1 even if nothing is read.
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
  gemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans, Int(p.m),
       Int(p.n), Int(p.k), p.alpha, p.a, Stride(p.lda), p.b, Stride(p.ldb), p.beta, p.c, Stride(p.ldc));
}

template <class A>
void MultiplyTiles(const Product<A>& p, ThreadPool& pool) {
  ForTiles(pool, p.m, p.n, p.k, [&](int64_t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    MultiplyAny(p.Part(row, rows, column, columns));
  });
}

}  // namespace

void UseOneBlasThread() {
  static std::mutex mutex;  // ranks of one process are created concurrently
  const std::lock_guard lock(mutex);
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

const char* BlasCore() { return openblas_get_corename(); }

void Multiply(const Product<float>& p) { MultiplyAny(p); }
void Multiply(const Product<double>& p) { MultiplyAny(p); }
void Multiply(const Product<float>& p, ThreadPool& pool) { MultiplyTiles(p, pool); }
void Multiply(const Product<double>& p, ThreadPool& pool) { MultiplyTiles(p, pool); }

}  // namespace twofold::cpu
