#include <cudnn.h>

#include <array>
#include <map>
#include <optional>
#include <string>

#include "core/base/check.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

constexpr int kCandidates = 8;

void CheckCudnn(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]] return;
  throw CudaError(std::string("cuDNN: ") + cudnnGetErrorString(status));
}

cudnnDataType_t TypeOf(DType type) {
  switch (type) {
    case DType::kF32: return CUDNN_DATA_FLOAT;
    case DType::kBF16: return CUDNN_DATA_BFLOAT16;
    case DType::kF16: return CUDNN_DATA_HALF;
    default: TWOFOLD_CHECK(false, "F32, BF16 or F16");
  }
}

// A descriptor that destroys itself.
template <class D, cudnnStatus_t (*kCreate)(D*), cudnnStatus_t (*kDestroy)(D)>
class Descriptor {
 public:
  Descriptor() { CheckCudnn(kCreate(&d_)); }
  ~Descriptor() { kDestroy(d_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator D() const { return d_; }

 private:
  D d_ = nullptr;
};
using ImagesDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using WeightsDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

// The first deterministic one that has room.
template <class Algorithm, class Answers>
std::optional<Algorithm> FirstOf(const Answers& answers, int count, size_t workspace_bytes) {
  for (int i = 0; i < count; ++i) {
    const auto& answer = answers[static_cast<size_t>(i)];
    if (answer.status == CUDNN_STATUS_SUCCESS && answer.determinism == CUDNN_DETERMINISTIC && answer.memory <= workspace_bytes)
      return answer.algo;
  }
  return std::nullopt;
}

// Descriptors of one convolution and the algorithm of its pass; none where the library has none.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const LibraryConvolution& p, size_t workspace_bytes, bool tf32) : pass_(p.pass) {
    const auto narrow = [](int64_t n) { return static_cast<int>(n); };
    const cudnnDataType_t type = TypeOf(p.type);
    CheckCudnn(cudnnSetTensor4dDescriptor(x_, CUDNN_TENSOR_NHWC, type, narrow(p.images), narrow(p.in_channels), narrow(p.height),
                                          narrow(p.width)));
    CheckCudnn(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NHWC, type, narrow(p.images), narrow(p.out_channels), narrow(p.out_height),
                                          narrow(p.out_width)));
    CheckCudnn(cudnnSetFilter4dDescriptor(w_, type, CUDNN_TENSOR_NHWC, narrow(p.out_channels), narrow(p.in_channels),
                                          narrow(p.kernel_height), narrow(p.kernel_width)));
    const int padding = narrow(p.padding), stride = narrow(p.stride);
    CheckCudnn(cudnnSetConvolution2dDescriptor(convolution_, padding, padding, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                               CUDNN_DATA_FLOAT));
    // The library's default is to round F32 operands to TF32.
    CheckCudnn(cudnnSetConvolutionMathType(convolution_, p.type != DType::kF32 ? CUDNN_TENSOR_OP_MATH
                                                         : tf32                ? CUDNN_DEFAULT_MATH
                                                                               : CUDNN_FMA_MATH));
    Choose(handle, workspace_bytes);
  }
  bool possible() const { return forward_ || backward_ || weights_; }

  // What the library does not support after all is not done. False then.
  bool Run(cudnnHandle_t handle, void* x, void* w, void* y, std::byte* workspace, size_t bytes) {
    const float one = 1, zero = 0;
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    if (forward_)
      status = cudnnConvolutionForward(handle, &one, x_, x, w_, w, convolution_, *forward_, workspace, bytes, &zero, y_, y);
    if (backward_)
      status = cudnnConvolutionBackwardData(handle, &one, w_, w, y_, y, convolution_, *backward_, workspace, bytes, &zero, x_, x);
    if (weights_)
      status = cudnnConvolutionBackwardFilter(handle, &one, x_, x, y_, y, convolution_, *weights_, workspace, bytes, &zero, w_, w);
    if (status == CUDNN_STATUS_NOT_SUPPORTED) {
      forward_.reset(), backward_.reset(), weights_.reset();
      return false;
    }
    CheckCudnn(status);
    return true;
  }

 private:
  void Choose(cudnnHandle_t handle, size_t workspace_bytes) {
    int count = 0;
    switch (pass_) {
      case ConvolutionPass::kForward: {
        std::array<cudnnConvolutionFwdAlgoPerf_t, kCandidates> answers;
        if (cudnnGetConvolutionForwardAlgorithm_v7(handle, x_, w_, convolution_, y_, kCandidates, &count, answers.data()) == CUDNN_STATUS_SUCCESS)
          forward_ = FirstOf<cudnnConvolutionFwdAlgo_t>(answers, count, workspace_bytes);
        return;
      }
      case ConvolutionPass::kBackward: {
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, kCandidates> answers;
        if (cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w_, y_, convolution_, x_, kCandidates, &count, answers.data()) ==
            CUDNN_STATUS_SUCCESS)
          backward_ = FirstOf<cudnnConvolutionBwdDataAlgo_t>(answers, count, workspace_bytes);
        return;
      }
      case ConvolutionPass::kWeights: {
        std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kCandidates> answers;
        if (cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x_, y_, convolution_, w_, kCandidates, &count, answers.data()) ==
            CUDNN_STATUS_SUCCESS)
          weights_ = FirstOf<cudnnConvolutionBwdFilterAlgo_t>(answers, count, workspace_bytes);
        return;
      }
    }
  }

  const ConvolutionPass pass_;
  ImagesDescriptor x_, y_;
  WeightsDescriptor w_;
  ConvolutionDescriptor convolution_;
  std::optional<cudnnConvolutionFwdAlgo_t> forward_;
  std::optional<cudnnConvolutionBwdDataAlgo_t> backward_;
  std::optional<cudnnConvolutionBwdFilterAlgo_t> weights_;
};

}  // namespace

struct Convolutions::Handles {
  Handles() { CheckCudnn(cudnnCreate(&handle)); }
  ~Handles() {
    plans.clear();
    cudnnDestroy(handle);
  }
  cudnnHandle_t handle = nullptr;
  std::map<std::pair<LibraryConvolution, size_t>, Plan> plans;
};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) {}
Convolutions::~Convolutions() = default;

bool Convolutions::Has(DType type) { return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16; }

bool Convolutions::Run(const LibraryConvolution& p, void* x, void* w, void* y, std::byte* workspace, size_t workspace_bytes,
                       cudaStream_t stream) {
  if (handles_ == nullptr) handles_ = std::make_unique<Handles>();
  CheckCudnn(cudnnSetStream(handles_->handle, stream));
  const auto [plan, fresh] = handles_->plans.try_emplace({p, workspace_bytes}, handles_->handle, p, workspace_bytes, tf32_);
  return plan->second.possible() && plan->second.Run(handles_->handle, x, w, y, workspace, workspace_bytes);
}

}  // namespace twofold::cuda
