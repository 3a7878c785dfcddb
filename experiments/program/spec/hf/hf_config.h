// From a Hugging Face config.json to a model of ours.
//
// Known are the families GPT-2, Llama and Mistral (`model_type`). A field is read, checked, or known to change nothing that
// is computed in training (names, token ids, element types, caches, summary heads; the list is in fields.cc); every other
// field is refused by name, because it might. So is a name that is given twice.
//
// Dropout. GPT-2's embd_pdrop and resid_pdrop must be equal and become model.gpt.dropout. attn_pdrop becomes
// model.gpt.attention_dropout where the spec says attention: UNFUSED; tiled attention has no dropout on its
// probabilities, and there attn_pdrop is left out. Both default to 0.1, as in Hugging Face's own class.
//
// Sequence. max_position_embeddings (n_positions), or sliding_window where that is shorter: within it the window changes
// nothing. `--set model.llama.sequence=...` shortens it; longer than the window is refused.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `text`: the file's content; `file`: the name that errors begin with. `attention`: what the spec asks for. Errors: a line
// a problem, "file: field: value ...; what would be right", or where the text stops being JSON.
absl::StatusOr<spec::Model> ReadHfConfig(const std::string& text, const std::string& file, spec::Model::Attention attention);

}  // namespace twofold
