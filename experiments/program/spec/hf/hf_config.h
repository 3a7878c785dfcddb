// Converts a Hugging Face config.json to a model of ours.
//
// The families GPT-2, Llama, Mistral and Qwen2 are known (`model_type`). Each field is read, checked, or known to
// change nothing in training (names, token ids, element types, caches, summary heads; the list is in fields.cc). Every
// other field is refused by name, because it might. A name that is given twice is refused too.
//
// Dropout. GPT-2's embd_pdrop and resid_pdrop must be equal and become model.gpt.dropout. attn_pdrop becomes
// model.gpt.attention_dropout if the spec says attention: UNFUSED. Tiled attention has no dropout on its probabilities,
// so there attn_pdrop is ignored. Both default to 0.1, as in Hugging Face's own class.
//
// Sequence. max_position_embeddings (n_positions), or sliding_window if that is shorter: within the window it has no
// effect, in whichever layers it is. `--set model.llama.sequence=...` shortens the sequence; a sequence longer than the
// window is refused.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `text`: the file's content. `file`: the name that errors begin with. `attention`: the spec's choice. Errors have one
// line per problem, "file: field: value ...; what would be right", or name the place where the text is not valid JSON.
absl::StatusOr<spec::Model> ReadHfConfig(const std::string& text, const std::string& file,
                                         spec::Model::Attention attention);

}  // namespace twofold
