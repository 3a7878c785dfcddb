#include "kernels/cuda/cublaslt.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/error.h"

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
