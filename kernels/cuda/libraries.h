// The matrix products, convolutions and attention of NVIDIA's libraries, one set of handles a device.
//
// They get no memory of their own: a workspace of kLibraryWorkspace bytes (core/device/ops/rules.h) is part of the operations that
// use them, so that it is in the ledger and can be predicted. cuBLASLt is loaded when the first Libraries is made, not when the program
// starts: it is 0.5 GB, and mapping it takes 40 to 600 ms that a run without a GPU should not wait for. cuDNN is loaded when a
// convolution or attention first asks for it, and may be missing. The emulation
// (cmake/cuda.cmake) has libraries of its own, plain loops (emulated/libraries.cc).
//
// Algorithms are chosen once for each product's shape, types, alignment and workspace, by the library's heuristic: the first that splits
// no sum or adds split sums up in the type of the arithmetic, in a fixed order. So a product's result depends on its operands
// alone, run after run, on one kind of GPU and one version of the library.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attentions.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/product.h"

namespace twofold::cuda {

class Libraries {
 public:
  struct Options {
    // Products and convolutions of F32 operands round these to TF32 (10 bits of mantissa): several times as fast.
    bool tf32 = false;
    // What is fastest is taken though losses are then no longer the same bit for bit. The first time that the shape of a product is
    // seen, the heuristic's candidates are run and timed, while the host waits, and the fastest is kept; which one that is may differ from
    // run to run, and candidates add in different orders. Attention may go backward by cuDNN in no fixed order (attentions.h).
    bool time_algorithms = false;
    AttentionKernels attention = AttentionKernels::kAuto;
  };
  explicit Libraries(const Options& options);  // for the current GPU; throws CudaError
  Libraries() : Libraries(Options()) {}
  ~Libraries();

  // Operands in the GPU's memory. `workspace` is aligned to 512 bytes. bias: null unless p.bias; aux: null unless p has an epilogue;
  // both aligned to 16 bytes.
  struct Operands {
    const void *a, *b, *bias;
    void *d, *aux = nullptr;
    std::byte* workspace;
    size_t workspace_bytes;
  };
  // Throws where there is no algorithm for it.
  void Multiply(const LibraryProduct& p, const Operands& on, cudaStream_t stream);
  // The same of a product with an epilogue; false, and nothing is done, where the library had better not do it or cannot. It had
  // from compute capability 9 on: before, kernels with such epilogues are slower than two.
  bool MultiplyFused(const LibraryProduct& p, const Operands& on, cudaStream_t stream);

  Convolutions& convolutions() { return convolutions_; }
  Attentions& attentions() { return attentions_; }

 private:
  struct Handles;
  const std::unique_ptr<Handles> handles_;
  Convolutions convolutions_;
  Attentions attentions_;
};

// Of the libraries as they were loaded: "cuBLASLt 13.0.2", "cuDNN 9.19.0", or why one is not there.
std::vector<std::string> LibraryVersions();

}  // namespace twofold::cuda
