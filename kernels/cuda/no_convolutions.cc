// For builds without cuDNN. The emulation has convolutions of its own (emulated/convolutions.cc).
#include "kernels/cuda/convolutions.h"

namespace twofold::cuda {

struct Convolutions::Handles {};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) { static_cast<void>(tf32_); }
Convolutions::~Convolutions() = default;
bool Convolutions::Available() { return false; }
bool Convolutions::Run(const LibraryConvolution&, const GraphAddresses&, std::byte*, size_t, cudaStream_t) {
  return false;
}

}  // namespace twofold::cuda
