#include "kernels/cpu/blas.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "core/base/check.h"

// What OpenBLAS's library does when it is loaded (driver/others/dynamic.c): it picks the kernels of one processor. Weak:
// a build for one processor alone has neither.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace twofold::cpu {
namespace {

// OpenBLAS knows processors by their model numbers, and takes those newer than itself for a Prescott, whose products are
// five times slower than the machine's. What the processor says that it can do is the better guide. OPENBLAS_CORETYPE, if
// set, stays the last word. This runs before main, while there is one thread to read the environment.
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

// Rows [row, row + rows) and columns [column, column + columns) of c.
template <class A>
Product<A> Part(Product<A> p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  p.a += p.transpose_a ? row : row * p.lda;
  p.b += p.transpose_b ? column * p.ldb : column;
  p.c += row * p.ldc + column;
  p.m = rows, p.n = columns;
  return p;
}

constexpr int64_t kUnit = 32;                 // rows or columns: tiles are multiples, as the products' kernels are
constexpr double kLeast = 64.0 * 64.0 * 64.0;  // m * n * k that is worth a thread

struct Grid {
  int64_t rows, columns;
};
// Of at most `threads` tiles, each as near to a square as may be: the less of a and b each thread has to pack.
Grid ChooseGrid(int64_t m, int64_t n, int64_t k, int64_t threads) {
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  threads = std::min(threads, static_cast<int64_t>(volume / kLeast));
  Grid best{1, 1};
  int64_t least = m + n, most_tiles = 1;
  for (int64_t rows = 1; rows <= std::min(threads, (m + kUnit - 1) / kUnit); ++rows) {
    const int64_t columns = std::min(threads / rows, (n + kUnit - 1) / kUnit), border = m / rows + n / columns;
    if (rows * columns < most_tiles || (rows * columns == most_tiles && border >= least)) continue;
    best = {rows, columns}, least = border, most_tiles = rows * columns;
  }
  return best;
}

template <class A>
void MultiplyTiles(const Product<A>& p, ThreadPool& pool) {
  const Grid grid = pool.threads() == 1 ? Grid{1, 1} : ChooseGrid(p.m, p.n, p.k, pool.threads());
  if (grid.rows * grid.columns == 1) return MultiplyAny(p);
  const auto length = [](int64_t n, int64_t parts) { return (n + parts * kUnit - 1) / (parts * kUnit) * kUnit; };
  const int64_t rows = length(p.m, grid.rows), columns = length(p.n, grid.columns);
  pool.ParallelFor(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row = tile / grid.columns * rows, column = tile % grid.columns * columns;
      if (row >= p.m || column >= p.n) continue;
      MultiplyAny(Part(p, row, std::min(rows, p.m - row), column, std::min(columns, p.n - column)));
    }
  });
}

}  // namespace

void UseOneBlasThread() {
  static std::mutex mutex;  // ranks of one process are made at the same time
  const std::lock_guard lock(mutex);
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

const char* BlasCore() { return openblas_get_corename(); }

void Multiply(const Product<float>& p) { MultiplyAny(p); }
void Multiply(const Product<double>& p) { MultiplyAny(p); }
void Multiply(const Product<float>& p, ThreadPool& pool) { MultiplyTiles(p, pool); }
void Multiply(const Product<double>& p, ThreadPool& pool) { MultiplyTiles(p, pool); }

}  // namespace twofold::cpu
