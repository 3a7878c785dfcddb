// cuDNN's convolutions as plain loops on the stream's thread, if TWOFOLD_EMULATED_CUDNN is 1. Otherwise our own kernels
// do all convolutions on an emulated GPU.
#include "kernels/cuda/convolutions.h"

#include <cstdlib>
#include <string_view>
#include <vector>

#include "kernels/cuda/numbers.h"

namespace twofold::cuda {
namespace {

// Calls f(y, x, w) with the indices of all triples of elements that are multiplied.
template <class F>
void ForEachProduct(const LibraryConvolution& c, F&& f) {
  for (int64_t n = 0; n < c.images; ++n) {
    for (int64_t i = 0; i < c.out_height * c.out_width; ++i) {
      for (int64_t tap = 0; tap < c.kernel_height * c.kernel_width; ++tap) {
        const int64_t row = i / c.out_width * c.stride - c.padding + tap / c.kernel_width,
                      column = i % c.out_width * c.stride - c.padding + tap % c.kernel_width;
        if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
        const int64_t y = (n * c.out_height * c.out_width + i) * c.out_channels,
                      x = ((n * c.height + row) * c.width + column) * c.in_channels;
        for (int64_t to = 0; to < c.out_channels; ++to) {
          for (int64_t from = 0; from < c.in_channels; ++from)
            f(y + to, x + from, (to * c.kernel_height * c.kernel_width + tap) * c.in_channels + from);
        }
      }
    }
  }
}

template <class T, class Result>
void Convolve(const LibraryConvolution& c, const GraphAddresses& tensors) {
  const auto at = [&]<class E>(GraphOperand operand, E*) {
    return static_cast<E*>(tensors[static_cast<size_t>(operand)]);
  };
  const T* const x = at(GraphOperand::kX, static_cast<T*>(nullptr));
  const T* const w = at(GraphOperand::kW, static_cast<T*>(nullptr));
  const T* const y = at(GraphOperand::kY, static_cast<T*>(nullptr));
  const T* const bias = at(GraphOperand::kBias, static_cast<T*>(nullptr));
  const auto product = [](const T& a, const T& b) { return As<float>(a) * As<float>(b); };
  const auto store = [](const std::vector<float>& sums, Result* to) {
    for (size_t i = 0; i < sums.size(); ++i) Store(to + i, sums[i]);
  };
  const auto zeros = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };
  Result* const none = nullptr;
  switch (c.pass) {
    case ConvolutionPass::kForward: {
      std::vector<float> sums = zeros(c.images * c.out_height * c.out_width * c.out_channels);
      ForEachProduct(c,
                     [&](int64_t to, int64_t a, int64_t b) { sums[static_cast<size_t>(to)] += product(x[a], w[b]); });
      for (size_t i = 0; c.bias && i < sums.size(); ++i)
        sums[i] += As<float>(bias[static_cast<int64_t>(i) % c.out_channels]);
      return store(sums, at(GraphOperand::kY, none));
    }
    case ConvolutionPass::kBackward: {
      std::vector<float> sums = zeros(c.images * c.height * c.width * c.in_channels);
      ForEachProduct(c,
                     [&](int64_t a, int64_t to, int64_t b) { sums[static_cast<size_t>(to)] += product(y[a], w[b]); });
      return store(sums, at(GraphOperand::kX, none));
    }
    case ConvolutionPass::kWeights: {
      std::vector<float> sums = zeros(c.out_channels * c.kernel_height * c.kernel_width * c.in_channels);
      ForEachProduct(c,
                     [&](int64_t a, int64_t b, int64_t to) { sums[static_cast<size_t>(to)] += product(y[a], x[b]); });
      return store(sums, at(GraphOperand::kW, none));
    }
  }
}

}  // namespace

struct Convolutions::Handles {};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) { static_cast<void>(tf32_); }
Convolutions::~Convolutions() = default;

bool Convolutions::Available() {
  const char* const value = std::getenv("TWOFOLD_EMULATED_CUDNN");
  return value != nullptr && std::string_view(value) == "1";
}

std::string Convolutions::WhyNot(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte*, size_t,
                                 cudaStream_t stream) {
  if (std::string why = WhyNotCudnn(c); !why.empty()) return why;
  for (const GraphOperand operand : {GraphOperand::kX, GraphOperand::kW, GraphOperand::kY}) {
    if (reinterpret_cast<uintptr_t>(tensors[static_cast<size_t>(operand)]) % 16 != 0) return "a tensor is not aligned";
  }
  emulated::EnqueueOnHost(stream, [c, tensors] {
    if (c.type == DType::kF32) return Convolve<float, float>(c, tensors);
    const auto narrow = [&]<class T>(T) {
      c.result == c.type ? Convolve<T, T>(c, tensors) : Convolve<T, float>(c, tensors);
    };
    c.type == DType::kBF16 ? narrow(Bf16()) : narrow(Half());
  });
  return "";
}

bool Convolutions::Run(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte* workspace,
                       size_t workspace_bytes, cudaStream_t stream) {
  return WhyNot(c, tensors, workspace, workspace_bytes, stream).empty();
}

}  // namespace twofold::cuda
