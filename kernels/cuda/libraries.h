// The matrix products and convolutions of NVIDIA's libraries, one set of handles a device.
//
// They get no memory of their own: a workspace of kLibraryWorkspace bytes (core/device/ops/rules.h) is part of the operations that
// use them, so that it is in the ledger and can be predicted. cuBLASLt is loaded when the first Libraries is made, not when the program
// starts: it is 0.5 GB, and mapping it takes 40 to 600 ms that a run without a GPU should not wait for. The emulation
// (cmake/cuda.cmake) has libraries of its own, plain loops (emulated/libraries.cc).
//
// Algorithms are chosen once for each product's shape, types, alignment and workspace, by the library's heuristic: the first that splits
// no sum or adds split sums up in the type of the arithmetic, in a fixed order. So a product's result depends on its operands
// alone, run after run, on one kind of GPU and one version of the library.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/product.h"

namespace twofold::cuda {

class Libraries {
 public:
  struct Options {
    // Products and convolutions of F32 operands round these to TF32 (10 bits of mantissa): several times as fast.
    bool tf32 = false;
    // The first time that a shape is seen, the heuristic's candidates are run and timed, and the fastest is kept. Which one that is
    // may differ from run to run, and candidates add in different orders: losses are then no longer the same bit for bit. The host
    // waits while they run.
    bool time_algorithms = false;
  };
  explicit Libraries(const Options& options);  // for the current GPU; throws CudaError
  Libraries() : Libraries(Options()) {}
  ~Libraries();

  // Operands in the GPU's memory. `workspace` is aligned to 512 bytes. bias: null unless p.bias, aligned to 16 bytes.
  struct Operands {
    const void *a, *b, *bias;
    void* d;
    std::byte* workspace;
    size_t workspace_bytes;
  };
  void Multiply(const LibraryProduct& p, const Operands& on, cudaStream_t stream);

  Convolutions& convolutions() { return convolutions_; }

 private:
  struct Handles;
  const std::unique_ptr<Handles> handles_;
  Convolutions convolutions_;
};

}  // namespace twofold::cuda
