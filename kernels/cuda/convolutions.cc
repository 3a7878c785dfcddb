#include <array>
#include <map>
#include <optional>

#include "core/base/check.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

constexpr int kMostChoices = 8;

// The library's functions; call only if there is a handle.
const Cudnn& Lib() { return TheCudnn(); }
void CheckCudnn(cudnnStatus_t status) { Lib().Check(status, "a convolution"); }

cudnnDataType_t CudnnTypeOf(DType type) {
  switch (type) {
    case DType::kF32: return CUDNN_DATA_FLOAT;
    case DType::kBF16: return CUDNN_DATA_BFLOAT16;
    case DType::kF16: return CUDNN_DATA_HALF;
    default: TWOFOLD_CHECK(false, "the type is F32, BF16 or F16");
  }
}

// A descriptor that destroys itself.
template <class D, auto kCreate, auto kDestroy>
class Descriptor {
 public:
  Descriptor() { CheckCudnn((Lib().*kCreate)(&d_)); }
  ~Descriptor() { (Lib().*kDestroy)(d_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator D() const { return d_; }

 private:
  D d_ = nullptr;
};
using ImagesDescriptor =
    Descriptor<cudnnTensorDescriptor_t, &Cudnn::CreateTensorDescriptor, &Cudnn::DestroyTensorDescriptor>;
using WeightsDescriptor =
    Descriptor<cudnnFilterDescriptor_t, &Cudnn::CreateFilterDescriptor, &Cudnn::DestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, &Cudnn::CreateConvolutionDescriptor, &Cudnn::DestroyConvolutionDescriptor>;

// The first deterministic answer that fits the workspace and does not round operands further than allowed.
template <class Answers>
std::optional<typename Answers::value_type> FirstOf(const Answers& answers, int count, size_t workspace_bytes,
                                                    bool exact) {
  for (int i = 0; i < count; ++i) {
    const auto& answer = answers[static_cast<size_t>(i)];
    const bool rounds =
        answer.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION || (exact && answer.mathType == CUDNN_TENSOR_OP_MATH);
    if (answer.status == CUDNN_STATUS_SUCCESS && answer.determinism == CUDNN_DETERMINISTIC &&
        answer.memory <= workspace_bytes && !rounds)
      return answer;
  }
  return std::nullopt;
}

// The descriptors of one convolution and the algorithm of its pass; no algorithm if the library has none.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const LibraryConvolution& p, size_t workspace_bytes, bool tf32)
      : pass_(p.pass), exact_(p.type == DType::kF32 && !tf32) {
    const auto narrow = [](int64_t n) { return static_cast<int>(n); };
    const cudnnDataType_t type = CudnnTypeOf(p.type);
    CheckCudnn(Lib().SetTensor4dDescriptor(x_, CUDNN_TENSOR_NHWC, type, narrow(p.images), narrow(p.in_channels),
                                           narrow(p.height), narrow(p.width)));
    CheckCudnn(Lib().SetTensor4dDescriptor(y_, CUDNN_TENSOR_NHWC, type, narrow(p.images), narrow(p.out_channels),
                                           narrow(p.out_height), narrow(p.out_width)));
    CheckCudnn(Lib().SetFilter4dDescriptor(w_, type, CUDNN_TENSOR_NHWC, narrow(p.out_channels), narrow(p.in_channels),
                                           narrow(p.kernel_height), narrow(p.kernel_width)));
    const int padding = narrow(p.padding), stride = narrow(p.stride);
    CheckCudnn(Lib().SetConvolution2dDescriptor(convolution_, padding, padding, stride, stride, 1, 1,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    // The library's default is to round F32 operands to TF32.
    CheckCudnn(Lib().SetConvolutionMathType(convolution_, p.type != DType::kF32 ? CUDNN_TENSOR_OP_MATH
                                                          : tf32                ? CUDNN_DEFAULT_MATH
                                                                                : CUDNN_FMA_MATH));
    Choose(handle, workspace_bytes);
  }
  bool possible() const { return forward_ || backward_ || weights_; }

  // Returns false, having done nothing, if the library does not support the convolution after all.
  bool Run(cudnnHandle_t handle, void* x, void* w, void* y, std::byte* workspace, size_t bytes, cudaStream_t stream) {
    const float one = 1, zero = 0;
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    if (forward_)
      status =
          Lib().ConvolutionForward(handle, &one, x_, x, w_, w, convolution_, *forward_, workspace, bytes, &zero, y_, y);
    if (backward_)
      status = Lib().ConvolutionBackwardData(handle, &one, w_, w, y_, y, convolution_, *backward_, workspace, bytes,
                                             &zero, x_, x);
    if (weights_)
      status = Lib().ConvolutionBackwardFilter(handle, &one, x_, x, y_, y, convolution_, *weights_, workspace, bytes,
                                               &zero, w_, w);
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
      ThrowIfGpuFailed("cuDNN does not support the convolution", stream);
      forward_.reset(), backward_.reset(), weights_.reset();
      return false;
    }
    CheckCudnn(status);
    return true;
  }

 private:
  // An answer is valid only for its own math type.
  template <class Answers, class Algorithm>
  void Take(cudnnStatus_t status, const Answers& answers, int count, size_t workspace_bytes,
            std::optional<Algorithm>& algorithm) {
    if (status != CUDNN_STATUS_SUCCESS) return;
    const auto answer = FirstOf(answers, count, workspace_bytes, exact_);
    if (!answer) return;
    algorithm = answer->algo;
    if (!exact_) CheckCudnn(Lib().SetConvolutionMathType(convolution_, answer->mathType));
  }
  void Choose(cudnnHandle_t handle, size_t workspace_bytes) {
    int count = 0;
    switch (pass_) {
      case ConvolutionPass::kForward: {
        std::array<cudnnConvolutionFwdAlgoPerf_t, kMostChoices> answers;
        const cudnnStatus_t status = Lib().GetConvolutionForwardAlgorithm_v7(handle, x_, w_, convolution_, y_,
                                                                             kMostChoices, &count, answers.data());
        return Take(status, answers, count, workspace_bytes, forward_);
      }
      case ConvolutionPass::kBackward: {
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMostChoices> answers;
        const cudnnStatus_t status = Lib().GetConvolutionBackwardDataAlgorithm_v7(handle, w_, y_, convolution_, x_,
                                                                                  kMostChoices, &count, answers.data());
        return Take(status, answers, count, workspace_bytes, backward_);
      }
      case ConvolutionPass::kWeights: {
        std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMostChoices> answers;
        const cudnnStatus_t status = Lib().GetConvolutionBackwardFilterAlgorithm_v7(
            handle, x_, y_, convolution_, w_, kMostChoices, &count, answers.data());
        return Take(status, answers, count, workspace_bytes, weights_);
      }
    }
  }

  const ConvolutionPass pass_;
  const bool exact_;  // F32 operands are not rounded to TF32
  ImagesDescriptor x_, y_;
  WeightsDescriptor w_;
  ConvolutionDescriptor convolution_;
  std::optional<cudnnConvolutionFwdAlgo_t> forward_;
  std::optional<cudnnConvolutionBwdDataAlgo_t> backward_;
  std::optional<cudnnConvolutionBwdFilterAlgo_t> weights_;
};

}  // namespace

struct Convolutions::Handles {
  Handles() { CheckCudnn(Lib().Create(&handle)); }
  ~Handles() {
    plans.clear();
    Lib().Destroy(handle);
  }
  void SetStream(cudaStream_t to) {  // may cost cuDNN its own streams and events
    if (set && stream == to) return;
    CheckCudnn(Lib().SetStream(handle, to));
    stream = to, set = true;
  }
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  bool set = false;
  std::map<std::pair<LibraryConvolution, size_t>, Plan> plans;
};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) {}
Convolutions::~Convolutions() = default;

bool Convolutions::Has(DType type) {
  return (type == DType::kF32 || type == DType::kBF16 || type == DType::kF16) && WhyNoCudnn().empty();
}

bool Convolutions::Run(const LibraryConvolution& p, void* x, void* w, void* y, std::byte* workspace,
                       size_t workspace_bytes, cudaStream_t stream) {
  if (handles_ == nullptr && !impossible_) {
    // cuDNN may be installed, but a library that it loads be missing or have another version: our kernels do it
    impossible_ = !WhyNot([&] { handles_ = std::make_unique<Handles>(); }, stream).empty();
  }
  if (handles_ == nullptr) return false;
  handles_->SetStream(stream);
  const auto [plan, fresh] =
      handles_->plans.try_emplace({p, workspace_bytes}, handles_->handle, p, workspace_bytes, tf32_);
  return plan->second.possible() && plan->second.Run(handles_->handle, x, w, y, workspace, workspace_bytes, stream);
}

}  // namespace twofold::cuda
