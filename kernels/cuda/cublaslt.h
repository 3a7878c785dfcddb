// cuBLASLt, loaded on first use. (libraries.h gives the reason.)
#pragma once

#include <cublasLt.h>

#include <string>

namespace twofold::cuda {

// The functions used, by their names without "cublasLt".
// clang-format off
#define TWOFOLD_CUBLASLT_FUNCTIONS(F)                                                                                 \
  F(Create) F(Destroy) F(GetVersion) F(GetStatusString) F(Matmul) F(MatmulDescCreate) F(MatmulDescDestroy)            \
  F(MatmulDescSetAttribute) F(MatrixLayoutCreate) F(MatrixLayoutDestroy) F(MatrixLayoutSetAttribute)                  \
  F(MatmulPreferenceCreate) F(MatmulPreferenceDestroy) F(MatmulPreferenceSetAttribute) F(MatmulAlgoGetHeuristic)      \
  F(MatmulAlgoConfigGetAttribute)
// clang-format on

struct CublasLt {
#define TWOFOLD_CUBLASLT_MEMBER(name) decltype(&cublasLt##name) name;
  TWOFOLD_CUBLASLT_FUNCTIONS(TWOFOLD_CUBLASLT_MEMBER)
#undef TWOFOLD_CUBLASLT_MEMBER

  // Throws CudaError with `what` unless `status` is success.
  void Check(cublasStatus_t status, const std::string& what) const;
};

// The process-wide instance. Any thread may call it. Throws CudaError if the library cannot be loaded.
const CublasLt& TheCublasLt();

}  // namespace twofold::cuda
