// Products, by OpenBLAS, whose own threads are left alone: a product of one call runs on the thread that calls, and what
// is worth dividing is divided over the device's own threads. So ranks of one process never meet in OpenBLAS's pool,
// and no second set of threads spins beside ours.
#pragma once

#include "kernels/cpu/product.h"

namespace twofold::cpu {

// Makes every later product of this process single-threaded in OpenBLAS. Any thread; before the first product.
void UseOneBlasThread();

// The processor that OpenBLAS's kernels were written for ("SkylakeX", "Haswell", ...).
const char* BlasCore();

// On the calling thread; may be called from several at once.
void Multiply(const Product<float>& p);
void Multiply(const Product<double>& p);

// The same, c divided among the pool's threads into a grid of tiles. Deterministic for a given number of threads.
void Multiply(const Product<float>& p, ThreadPool& pool);
void Multiply(const Product<double>& p, ThreadPool& pool);

}  // namespace twofold::cpu
