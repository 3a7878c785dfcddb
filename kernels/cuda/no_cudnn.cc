// Attention for builds without cuDNN, and for the emulation.
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {

struct AttentionPlans::Implementation {};

AttentionPlans::AttentionPlans() = default;
AttentionPlans::~AttentionPlans() = default;
std::string AttentionPlans::WhyNot(const LibraryAttention&, size_t) { return WhyNoCudnnAttention(); }
void AttentionPlans::Run(const LibraryAttention&, GraphAddresses, std::byte*, size_t, cudaStream_t) {
  throw CudaError(WhyNoCudnnAttention());
}

std::string CudnnVersion(std::string* why_not) {
  *why_not = WhyNoCudnnAttention();
  return "";
}
std::string WhyNoCudnnAttention() {
#ifdef TWOFOLD_EMULATED_CUDA
  return "an emulated GPU has no cuDNN";
#else
  return "this build has no cuDNN (it was not found when it was configured)";
#endif
}

}  // namespace twofold::cuda
