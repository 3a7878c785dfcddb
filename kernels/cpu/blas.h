// Products, by OpenBLAS.
#pragma once

#include <cstdint>

namespace twofold::cpu {

// How many threads OpenBLAS uses for one product. The setting belongs to the process, not to a device or a
// rank: when several ranks live in one process (the in-memory fabric), the last one to be made decides for
// all, and their products share one pool of threads. With 1 thread no OpenBLAS thread is used and products of
// several ranks run side by side.
void SetBlasThreads(int threads);

// c[m, n] = alpha * op(a) * op(b) + beta * c; row-major, lda/ldb/ldc are row strides in elements. c is not
// read when beta is 0. Deterministic for a given number of threads.
template <class A>
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  A alpha = 1;
  const A* a = nullptr;
  int64_t lda = 0;
  const A* b = nullptr;
  int64_t ldb = 0;
  A beta = 0;
  A* c = nullptr;
  int64_t ldc = 0;
};
void Multiply(const Product<float>& p);
void Multiply(const Product<double>& p);

}  // namespace twofold::cpu
