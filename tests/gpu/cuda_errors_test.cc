// What can be said of errors without a GPU.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/streams.h"

namespace twofold {
namespace cuda_errors_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(CudaErrors, NameRankGpuAndTheOperationLaunchedLast) {
  cuda::LastLaunched last(3, 1);
  last.Check(cudaSuccess);
  const auto text = [&last] {
    try {
      last.Check(cudaErrorIllegalAddress);
    } catch (const cuda::CudaError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(text(), AllOf(HasSubstr("rank 3 on GPU 1: cudaErrorIllegalAddress: "),
                            HasSubstr("no operation had been launched")));
  last.Set({"matmul_nt", DType::kBF16, {4096, 768, 3072}});
  EXPECT_THAT(text(), HasSubstr("the last operation launched was matmul_nt of bf16, 4096 x 768 x 3072"));
  last.Set({"fill", DType::kF32, {1, 33, 0}});
  EXPECT_THAT(text(), HasSubstr("the last operation launched was fill of f32, 1 x 33 ("));
  EXPECT_THROW(last.Naming([] { cuda::Check(cudaErrorInvalidValue); }), cuda::CudaError);
}

TEST(CudaErrors, WhereThereIsNoGpuCudasWordsSayWhy) {
  if (GpuCount() > 0)
    EXPECT_EQ(WhyNoGpu(), "");
  else
    EXPECT_THAT(WhyNoGpu(), testing::Not(testing::IsEmpty()));
}

}  // namespace cuda_errors_test
}  // namespace twofold
