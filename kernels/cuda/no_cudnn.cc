#include "kernels/cuda/convolutions.h"

namespace twofold::cuda {

struct Convolutions::Handles {};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) { static_cast<void>(tf32_); }
Convolutions::~Convolutions() = default;
bool Convolutions::Has(DType) { return false; }
bool Convolutions::Run(const LibraryConvolution&, void*, void*, void*, std::byte*, size_t, cudaStream_t) { return false; }

}  // namespace twofold::cuda
