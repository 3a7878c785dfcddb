// Converts a spec's Llama to core/nn's. Used by all kinds of model that are based on one.
#pragma once

#include "core/nn/llama.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `model`: the model that contains `llama`; its `attention` field selects fused or unfused attention.
nn::LlamaConfig ToLlamaConfig(const spec::Llama& llama, const spec::Model& model, DType dtype);

}  // namespace twofold
