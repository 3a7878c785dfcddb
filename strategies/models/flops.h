// The FLOPs of a kind of model, for its row: ToConfig(model, types) converts the spec's model to core/nn's.
#pragma once

#include <cstdint>

#include "core/nn/flops.h"
#include "core/proto/spec.pb.h"

namespace twofold {

template <auto ToConfig>
double TrainingFlopsOf(const spec::Model& model, int64_t samples) {
  return nn::TrainingFlops(ToConfig(model, DType::kF32), samples);
}
template <auto ToConfig>
double HardwareFlopsOf(const spec::Model& model, const nn::Recomputation& recomputation, int64_t samples) {
  return nn::HardwareFlops(ToConfig(model, DType::kF32), recomputation, samples);
}
template <auto ToConfig>
nn::BlockFlops FlopsByBlockOf(const spec::Model& model) {
  return nn::ForwardFlopsByBlock(ToConfig(model, DType::kF32));
}

}  // namespace twofold
