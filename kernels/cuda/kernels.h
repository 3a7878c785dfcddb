// One function per operation: it enqueues the arithmetic on a GPU stream. Shapes have already been checked.
//
// Kernels are deterministic: no result depends on the order in which blocks run. They use only the part of CUDA that
// emulated/cuda_runtime.h declares, so they also run without a GPU (cmake/cuda.cmake).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/device/ops.h"

namespace twofold::cuda {

class Libraries;  // libraries.h: cuBLASLt and cuDNN

struct Context {
  cudaStream_t stream;
  std::byte* workspace;  // of ops::Workspace's size, aligned to 512 bytes
  size_t workspace_bytes;
  int multiprocessors;  // of the GPU
  Libraries& libraries;
};

void Compute(const ops::MatMul& o, const Context& c);
void Compute(const ops::ConvolutionForward& o, const Context& c);
void Compute(const ops::ConvolutionBackward& o, const Context& c);
void Compute(const ops::ConvolutionWeights& o, const Context& c);
void Compute(const ops::MaxPoolForward& o, const Context& c);
void Compute(const ops::MaxPoolBackward& o, const Context& c);
void Compute(const ops::AveragePoolForward& o, const Context& c);
void Compute(const ops::AveragePoolBackward& o, const Context& c);
void Compute(const ops::BatchNormStatistics& o, const Context& c);
void Compute(const ops::BatchNormFinish& o, const Context& c);
void Compute(const ops::BatchNormForward& o, const Context& c);
void Compute(const ops::BatchNormSums& o, const Context& c);
void Compute(const ops::BatchNormBackward& o, const Context& c);
void Compute(const ops::Fill& o, const Context& c);
void Compute(const ops::Cast& o, const Context& c);
void Compute(const ops::Affine& o, const Context& c);
void Compute(const ops::Add& o, const Context& c);
void Compute(const ops::AddRelu& o, const Context& c);
void Compute(const ops::AddTo& o, const Context& c);
void Compute(const ops::Scale& o, const Context& c);
void Compute(const ops::ActivationForward& o, const Context& c);
void Compute(const ops::ActivationBackward& o, const Context& c);
void Compute(const ops::Dropout& o, const Context& c);
void Compute(const ops::MaskedDropoutForward& o, const Context& c);
void Compute(const ops::MaskedDropoutBackward& o, const Context& c);
void Compute(const ops::SwiGluForward& o, const Context& c);
void Compute(const ops::SwiGluBackward& o, const Context& c);
void Compute(const ops::ColumnSum& o, const Context& c);
void Compute(const ops::AddBias& o, const Context& c);
void Compute(const ops::EmbeddingForward& o, const Context& c);
void Compute(const ops::EmbeddingBackward& o, const Context& c);
void Compute(const ops::PositionForward& o, const Context& c);
void Compute(const ops::PositionBackward& o, const Context& c);
void Compute(const ops::LayerNormForward& o, const Context& c);
void Compute(const ops::LayerNormBackward& o, const Context& c);
void Compute(const ops::LayerNormWeights& o, const Context& c);
void Compute(const ops::RmsNormForward& o, const Context& c);
void Compute(const ops::RmsNormBackward& o, const Context& c);
void Compute(const ops::RmsNormWeights& o, const Context& c);
void Compute(const ops::AttentionForward& o, const Context& c);
void Compute(const ops::AttentionBackward& o, const Context& c);
void Compute(const ops::AttentionBlockForward& o, const Context& c);
void Compute(const ops::AttentionBlockBackward& o, const Context& c);
void Compute(const ops::CopyColumns& o, const Context& c);
void Compute(const ops::RotaryTable& o, const Context& c);
void Compute(const ops::Rotary& o, const Context& c);
void Compute(const ops::BatchedMatMul& o, const Context& c);
void Compute(const ops::SoftmaxForward& o, const Context& c);
void Compute(const ops::SoftmaxBackward& o, const Context& c);
void Compute(const ops::RouteForward& o, const Context& c);
void Compute(const ops::RouteBackward& o, const Context& c);
void Compute(const ops::Dispatch& o, const Context& c);
void Compute(const ops::Combine& o, const Context& c);
void Compute(const ops::CombineWeights& o, const Context& c);
void Compute(const ops::CrossEntropyForward& o, const Context& c);
void Compute(const ops::CrossEntropyBackward& o, const Context& c);
void Compute(const ops::Sum& o, const Context& c);
void Compute(const ops::CountCorrect& o, const Context& c);
void Compute(const ops::SplitMax& o, const Context& c);
void Compute(const ops::SplitSums& o, const Context& c);
void Compute(const ops::SplitLosses& o, const Context& c);
void Compute(const ops::SplitBackward& o, const Context& c);
void Compute(const ops::SplitCorrect& o, const Context& c);
void Compute(const ops::RandomFill& o, const Context& c);
void Compute(const ops::TopK& o, const Context& c);
void Compute(const ops::RandomPlaces& o, const Context& c);
void Compute(const ops::GatherElements& o, const Context& c);
void Compute(const ops::ScatterElements& o, const Context& c);
void Compute(const ops::Quantise& o, const Context& c);
void Compute(const ops::Dequantise& o, const Context& c);
void Compute(const ops::SignPack& o, const Context& c);
void Compute(const ops::SignUnpack& o, const Context& c);
void Compute(const ops::SgdStep& o, const Context& c);
void Compute(const ops::AdamStep& o, const Context& c);
void Compute(const ops::SquaredNorm& o, const Context& c);
void Compute(const ops::ClipFactor& o, const Context& c);

// ---- Shared by several kernels ----

// The address of a tensor's elements on the GPU; null if there is no tensor. T is one of numbers.h, float, double,
// int32_t, uint8_t.
template <class T>
T* At(const Tensor& t) {
  return t.empty() ? nullptr : reinterpret_cast<T*>(t.address());
}

// Rows are all dimensions but the last.
inline int64_t Columns(const Tensor& t) { return t.dim(-1); }
inline int64_t Rows(const Tensor& t) { return Columns(t) == 0 ? 0 : t.numel() / Columns(t); }

}  // namespace twofold::cuda
