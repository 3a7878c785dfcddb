// cuDNN's convolutions. What cuDNN cannot do, or if it is not installed, or the build has none (no_convolutions.cc),
// kernels/cuda/convolution.cu does.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "kernels/cuda/library_convolution.h"

namespace twofold::cuda {

class Convolutions {
 public:
  using Note = std::function<void(std::string note)>;
  explicit Convolutions(bool tf32);  // of the current GPU; F32 operands may be rounded to TF32
  ~Convolutions();

  // Sets the receiver of messages for readers of results: which convolutions our own kernels do although there is a
  // cuDNN, and why. Each is sent once.
  void SetNote(Note note) { note_ = std::move(note); }

  // Whether the library is available.
  static bool Available();
  // Enqueues the pass: c.pass selects which of x, w and y is written, from the other two. `bias` is null unless c.bias.
  // The engine is chosen once for each convolution and workspace size: the first of cuDNN's heuristic that is
  // deterministic, fits the workspace, and does not round further than allowed. Making the plan of a gradient in F32
  // of narrower weights compiles its kernel, which takes some seconds. Returns false, having done nothing, if there is
  // none, or x, w or y is not aligned to 16 bytes. w is in cuDNN's layout (library_convolution.h).
  bool Run(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte* workspace, size_t workspace_bytes,
           cudaStream_t stream);

 private:
  struct Handles;
  std::string WhyNot(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte* workspace,
                     size_t workspace_bytes, cudaStream_t stream);

  const bool tf32_;
  std::unique_ptr<Handles> handles_;  // made on first use
  std::string why_no_handles_;        // the reason, if they could not be made
  Note note_;
  std::set<LibraryConvolution> told_;
};

}  // namespace twofold::cuda
