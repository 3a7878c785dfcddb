// cuDNN, loaded on first use: without cuDNN a program still starts, and runs on a GPU with our own kernels.
#pragma once

#include <cudnn.h>

#include <string>
#include <type_traits>

namespace twofold::cuda {

// The functions used, by their names without "cudnn", in the order of their users.
// clang-format off
#define TWOFOLD_CUDNN_FUNCTIONS(F)                                                                                    \
  F(GetVersion) F(GetErrorString) F(GetLastErrorString) F(Create) F(Destroy) F(SetStream) F(BackendCreateDescriptor)  \
  F(BackendDestroyDescriptor) F(BackendSetAttribute) F(BackendGetAttribute) F(BackendFinalize) F(BackendExecute)
// clang-format on

struct Cudnn {
#define TWOFOLD_CUDNN_MEMBER(name) std::add_pointer_t<decltype(cudnn##name)> name;
  TWOFOLD_CUDNN_FUNCTIONS(TWOFOLD_CUDNN_MEMBER)
#undef TWOFOLD_CUDNN_MEMBER

  // Throws CudaError with `what` unless `status` is success.
  void Check(cudnnStatus_t status, const std::string& what) const;
};

// Why cuDNN cannot be loaded; "" if it can. Any thread may call it.
const std::string& WhyNoCudnn();
// The process-wide instance. Any thread may call it. Throws CudaError if cuDNN cannot be loaded.
const Cudnn& TheCudnn();

}  // namespace twofold::cuda
