// The matrix products, convolutions and attention of NVIDIA's libraries, with one set of handles per device.
//
// The libraries do not allocate memory. A workspace of kLibraryWorkspace bytes (core/device/ops/rules.h) is part of the
// operations that use them, so that the ledger contains it and it can be predicted. cuBLASLt is loaded when the first
// Libraries is made, not when the program starts: its size is 0.5 GB, and mapping it takes 40 to 600 ms, which a run
// without a GPU should not spend. cuDNN is loaded when a convolution or attention first needs it, and may be missing.
// The emulation (cmake/cuda.cmake) replaces the libraries by plain loops (emulated/libraries.cc).
//
// The library's heuristic chooses an algorithm once for each product's shape, types, alignment and workspace. The first
// algorithm is used that either does not split sums or adds the split sums in the compute type in a fixed order. So the
// result of a product depends on its operands alone, run after run, on one kind of GPU and one version of the library.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/attentions.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/fp8_choice.h"
#include "kernels/cuda/product.h"

namespace twofold::cuda {

class Libraries {
 public:
  struct Options {
    // Rounds the F32 operands of products and convolutions to TF32 (10 bits of mantissa), which is several times as
    // fast.
    bool tf32 = false;
    // Uses the fastest algorithms, although losses are then no longer bitwise repeatable. At the first product of a
    // shape, the heuristic's candidates are run and timed while the host waits, and the fastest is kept. Another
    // candidate may win in another run, and candidates add in different orders. The backward pass of attention may use
    // cuDNN engines without a fixed order (attentions.h).
    bool time_algorithms = false;
    AttentionKernels attention = AttentionKernels::kAuto;
    bool own_fp8 = false;  // products of FP8 operands are never asked for
  };
  explicit Libraries(const Options& options);  // for the current GPU; throws CudaError
  Libraries() : Libraries(Options()) {}
  ~Libraries();

  // Addresses in the GPU's memory. `workspace` is aligned to 512 bytes. bias: null unless p.bias; aux: null unless p
  // has an epilogue; both aligned to 16 bytes. Scales: of FP8 operands, else null.
  struct Operands {
    const void *a, *b, *bias;
    void *d, *aux = nullptr;
    std::byte* workspace;
    size_t workspace_bytes;
    const float *a_scales = nullptr, *b_scales = nullptr;
  };
  // Throws if there is no algorithm for it.
  void Multiply(const LibraryProduct& p, const Operands& on, cudaStream_t stream);
  // The same for a product with an epilogue. Returns false, having done nothing, if the library cannot do it or would
  // be slower. It is used from compute capability 9 on: before, kernels with such epilogues are slower than two
  // kernels.
  bool MultiplyFused(const LibraryProduct& p, const Operands& on, cudaStream_t stream);
  // Why the library cannot do a product of FP8 operands; "" if it can. Launches nothing, so that operands may be copied
  // to their places afterwards.
  std::string WhyNoFp8(const LibraryProduct& p, const Operands& on, cudaStream_t stream);
  // Such a product, without fast accumulation: the library promotes the tensor cores' sums to F32 from time to time.
  // Returns "", or why the library cannot do it, having done nothing then.
  std::string MultiplyFp8(const LibraryProduct& p, const Operands& on, cudaStream_t stream);
  Fp8Choice& fp8() { return fp8_; }

  Convolutions& convolutions() { return convolutions_; }
  Attentions& attentions() { return attentions_; }

 private:
  struct Handles;
  const std::unique_ptr<Handles> handles_;
  Convolutions convolutions_;
  Attentions attentions_;
  Fp8Choice fp8_;
};

// The loaded libraries: "cuBLASLt 13.0.2", "cuDNN 9.19.0", or why one is missing.
std::vector<std::string> LibraryVersions();

}  // namespace twofold::cuda
