// Tiny models, as pieces of specs, for the tests of Twofold's guarantees. A new kind of model is a row here.
#pragma once

#include <ostream>

namespace twofold::test {

struct TinyModel {
  const char* name;
  const char* model;
};
inline void PrintTo(const TinyModel& m, std::ostream* out) { *out << m.name; }

inline constexpr char kTinyGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";
inline constexpr char kTinyMlp[] = "model { mlp { inputs: 8 hidden: [24, 16] classes: 5 } }\n";
inline constexpr char kTinyLlama[] =
    "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 vocab: 256 sequence: 8 } }\n";

// One of each kind whose training does not depend on how the batch is split.
inline constexpr TinyModel kTinyModels[] = {{"Gpt", kTinyGpt}, {"Mlp", kTinyMlp}, {"Llama", kTinyLlama}};

// Networks whose results depend on micro-batches: batch norm statistics are those of one micro-batch, or of all ranks.
inline constexpr TinyModel kTinyCnns[] = {
    {"Cnn",
     "model { cnn { height: 8 width: 8 widths: [4, 6] blocks: [1, 1] classes: 5 } }\ndata { synthetic { samples: 96 } "
     "}\n"},
    {"CnnSync",
     "model { cnn { height: 8 width: 9 channels: 1 widths: [4, 6] blocks: [1, 2] classes: 5 stem: IMAGENET "
     "sync_batch_norm: true } }\n"
     "data { synthetic { samples: 96 } }\n"},
};

// Options that store more tensors or draw random numbers: each occurs in some row.
inline constexpr TinyModel kTinyVariants[] = {
    {"GptUnfused",
     "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.1 attention_dropout: 0.2 } attention: UNFUSED "
     "}\n"},
    {"GptStored",
     "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.1 attention_dropout: 0.2 } attention: UNFUSED "
     "dropout_masks: STORED }\n"},
    {"MlpStored", "model { mlp { inputs: 8 hidden: [24, 16] classes: 5 dropout: 0.3 } dropout_masks: STORED }\n"},
    {"LlamaUnfused",
     "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 head_dim: 6 ffn: 24 sequence: 8 qkv_bias: true "
     "tied_embeddings: true rope_scaling { llama3 { original_sequence: 4 } } } attention: UNFUSED }\n"},
};

}  // namespace twofold::test
