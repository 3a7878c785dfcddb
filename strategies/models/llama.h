// What a spec says of a Llama, as core/nn has it: for the kinds of model that are made of one.
#pragma once

#include "core/nn/llama.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `model`: whose attention it is.
nn::LlamaConfig ToLlamaConfig(const spec::Llama& llama, const spec::Model& model, DType dtype);

}  // namespace twofold
