// Matrix products by OpenBLAS, without OpenBLAS's own threads: each product runs on the calling thread, and large
// products are divided over the device's own threads. So ranks of one process do not contend for OpenBLAS's pool, and
// no second set of threads spins beside ours.
#pragma once

#include "kernels/cpu/product.h"

namespace twofold::cpu {

// Makes OpenBLAS single-threaded for all later products of this process. Any thread; call before the first product.
void UseOneBlasThread();

// The processor type that OpenBLAS selected its kernels for ("SkylakeX", "Haswell", ...).
const char* BlasCore();

// Runs on the calling thread; several threads may call at once.
void Multiply(const Product<float>& p);
void Multiply(const Product<double>& p);

// The same, with c divided among the pool's threads into a grid of tiles. Deterministic for a given number of threads.
void Multiply(const Product<float>& p, ThreadPool& pool);
void Multiply(const Product<double>& p, ThreadPool& pool);

}  // namespace twofold::cpu
