#include "kernels/cuda/cublaslt.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/fp8_choice.h"

namespace twofold::cuda {
namespace cublaslt_test {

// Loading needs no GPU.
TEST(CublasLt, IsLoadedOnceWithAllItsFunctions) {
  const CublasLt& lt = TheCublasLt();
  EXPECT_EQ(&lt, &TheCublasLt());
  EXPECT_THAT(lt.GetStatusString(CUBLAS_STATUS_NOT_SUPPORTED), testing::HasSubstr("not supported"));
  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(lt.MatrixLayoutCreate(&layout, CUDA_R_16BF, 5, 7, 5), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(lt.MatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
}

// Descriptors need no GPU either.
TEST(CublasLt, KnowsScalesOfFp8) {
  const CublasLt& lt = TheCublasLt();
  cublasLtMatmulDesc_t product = nullptr;
  ASSERT_EQ(lt.MatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  const auto set = [&](cublasLtMatmulDescAttributes_t what, auto value) {
    return lt.MatmulDescSetAttribute(product, what, &value, sizeof value);
  };
  const void* const scale = nullptr;
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale), CUBLAS_STATUS_SUCCESS);
#if CUBLAS_VERSION >= 120900
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F}),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F}),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F}),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_GE(lt.GetVersion(), kCublasWithFp8Blocks);
#endif
  EXPECT_EQ(lt.MatmulDescDestroy(product), CUBLAS_STATUS_SUCCESS);
  for (const cudaDataType_t type : {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(lt.MatrixLayoutCreate(&layout, type, 64, 32, 64), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(lt.MatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
  }
}

TEST(CublasLt, SaysWhatFailed) {
  TheCublasLt().Check(CUBLAS_STATUS_SUCCESS, "nothing");
  try {
    TheCublasLt().Check(CUBLAS_STATUS_INVALID_VALUE, "product of 3 x 4");
    FAIL();
  } catch (const CudaError& e) {
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("unsupported value"), testing::HasSubstr("product of 3 x 4")));
  }
}

}  // namespace cublaslt_test
}  // namespace twofold::cuda
