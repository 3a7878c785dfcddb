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

#ifdef TWOFOLD_EMULATED_CUDA

std::string LibraryRefuses(cudaStream_t stream) {
  return cuda::WhyNot(
      [] {
        cudaSetDevice(1000);  // leaves an error behind, as a library may
        throw cuda::CudaError("cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED");
      },
      stream);
}

TEST(CudaErrors, WhatALibraryRefusesMayBeDoneInAnotherWay) {
  cudaStream_t stream = nullptr;
  cuda::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  EXPECT_EQ(cuda::WhyNot([] {}, stream), "");
  EXPECT_EQ(LibraryRefuses(stream), "cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next launch would report it";
  cuda::Check(cudaStreamDestroy(stream));
}

TEST(CudaErrors, AGpuThatHasFailedIsNotTakenForALibraryThatRefuses) {
  cudaStream_t stream = nullptr;
  cuda::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  emulated::FailLater(stream, cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  try {
    LibraryRefuses(stream);
    ADD_FAILURE() << "another way would be tried";
  } catch (const cuda::CudaError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("cudaErrorIllegalAddress"), HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED")));
  }
  emulated::Recover();
  EXPECT_EQ(LibraryRefuses(stream), "cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED");
  cuda::Check(cudaStreamDestroy(stream));
}

// A library that refuses a captured stream may well take one that is not captured.
TEST(CudaErrors, WhatIsRefusedDuringACaptureIsNotRemembered) {
  cudaStream_t stream = nullptr;
  cuda::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cuda::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const auto refuses = [] { throw cuda::CudaError("cuDNN: not supported"); };
  EXPECT_THROW(cuda::WhyNot(refuses, stream), cuda::CudaError);
  cudaGraph_t graph = nullptr;
  cuda::Check(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(cuda::WhyNot(refuses, stream), "cuDNN: not supported");
  cuda::Check(cudaGraphDestroy(graph));
  cuda::Check(cudaStreamDestroy(stream));
}

#endif

}  // namespace cuda_errors_test
}  // namespace twofold
