// Specs of every strategy with tiny models, for ranks that share one GPU on the in-memory fabric.
#pragma once

#include <ostream>
#include <string>

#include "core/base/strings.h"

namespace twofold::test::strategies {

inline constexpr int kSteps = 4;

inline constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 } }\n";
inline constexpr char kDeepGpt[] = "model { gpt { layers: 4 hidden: 16 heads: 2 sequence: 8 } }\n";
inline constexpr char kLlama[] = "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } }\n";
inline constexpr char kMoe[] =
    "model { moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } experts: 4 top_k: 2 "
    "capacity_factor: 2 } }\n";
inline constexpr char kMlp[] = "model { mlp { inputs: 8 hidden: [24, 16] classes: 5 } }\n";
inline constexpr char kCnn[] =
    "model { cnn { height: 8 width: 8 widths: [4, 6] blocks: [1, 1] classes: 5 sync_batch_norm: true } }\n"
    "data { synthetic { samples: 96 } }\n";
inline constexpr char kUnfused[] =
    "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.1 attention_dropout: 0.1 } attention: UNFUSED "
    "}\n";

// Relative, of every step's loss. In f32 sums differ in their order alone. In bf16 each activation and gradient is
// rounded to 8 bits, so that another order of a sum moves some by 2^-8; in f16 by 2^-11.
inline constexpr double kF32 = 1e-4, kBf16 = 2e-2, kF16 = 5e-3, kF8 = 1e-3;

struct Case {
  const char* name;
  const char* model;
  const char* parallel;
  const char* train = "";  // further fields
  double tolerance = kF32;
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline constexpr Case kCases[] = {
    // One rank, every model.
    {"Gpt", kGpt, ""},
    {"Llama", kLlama, ""},
    {"Moe", kMoe, ""},
    {"Mlp", kMlp, ""},
    {"Cnn", kCnn, "", "optimizer { sgd { lr: 0.05 momentum: 0.9 } }"},
    {"GptUnfused", kUnfused, ""},
    // Layouts over replicas.
    {"Ddp", kGpt, "dp: 2 bucket_mib: 0.005"},
    {"DdpOfThree", kMlp, "dp: 3"},
    {"DdpCnn", kCnn, "dp: 2", "optimizer { sgd { lr: 0.05 momentum: 0.9 } }"},
    {"Zero1", kGpt, "dp: 2 sharding: ZERO_1"},
    {"Zero2", kGpt, "dp: 2 sharding: ZERO_2"},
    {"Zero3", kGpt, "dp: 2 sharding: ZERO_3"},
    {"Zero3Llama", kLlama, "dp: 3 sharding: ZERO_3"},
    {"HybridShard", kGpt, "dp: 4 sharding: HYBRID_SHARD shard_group: 2"},
    {"NoOverlap", kGpt, "dp: 2 sharding: ZERO_3 overlap: false"},
    // Axes inside layers.
    {"Tensor", kGpt, "tp: 2"},
    {"TensorSequence", kLlama, "tp: 2 sequence_parallel: true"},
    {"TensorUnfused", kUnfused, "tp: 2"},
    {"Context", kGpt, "cp: 2"},
    {"ContextLlama", kLlama, "cp: 2"},
    {"Expert", kMoe, "dp: 2 ep: 2"},
    // Pipelines.
    {"GPipe", kGpt, "pp: 2 schedule: GPIPE", "global_batch: 8"},
    {"OneFOneB", kGpt, "pp: 2", "global_batch: 8"},
    {"Interleaved", kDeepGpt, "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", "global_batch: 8"},
    {"ZeroBubble", kLlama, "pp: 2 schedule: ZERO_BUBBLE_H1", "global_batch: 8"},
    // Hybrids.
    {"TensorData", kLlama, "tp: 2 dp: 2 sharding: ZERO_2"},
    {"PipelineTensor", kGpt, "pp: 2 tp: 2", "global_batch: 4"},
    {"ExpertTensor", kMoe, "dp: 2 ep: 2 tp: 2"},
    // What saves memory.
    {"Accumulated", kGpt, "dp: 2 sharding: ZERO_2", "global_batch: 8"},
    {"Clipped", kGpt, "dp: 2 sharding: ZERO_3", "clip_norm: 0.5"},
    {"Recomputed", kGpt, "dp: 2", "activation_checkpointing {}"},
    {"RecomputedSelectively", kUnfused, "dp: 2", "activation_checkpointing { recompute: SELECTIVE }"},
    {"OffloadedOptimizer", kGpt, "dp: 2 sharding: ZERO_2 offload: OFFLOAD_OPTIMIZER"},
    {"Offloaded", kGpt, "dp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL"},
    // Narrow types.
    {"Bf16", kGpt, "dp: 2 sharding: ZERO_3", "precision { parameter: BF16 reduce: F32 }", kBf16},
    {"Bf16Llama", kLlama, "tp: 2", "precision { parameter: BF16 }", kBf16},
    {"F16", kGpt, "dp: 2", "precision { parameter: F16 loss_scale { dynamic { initial: 1024 } } }", kF16},
    // In FP8 a number that another order of a sum moves may be rounded to a code that is 1/8 away.
    {"Fp8", kGpt, "dp: 2", "precision { parameter: BF16 reduce: F32 matmul: FP8 }", kBf16},
    {"Fp8Llama", kLlama, "tp: 2 sequence_parallel: true", "precision { parameter: F32 matmul: FP8 }", kF8},
    {"Fp8Block", kGpt, "pp: 2", "global_batch: 8 precision { parameter: F32 matmul: FP8 fp8 { scaling: BLOCK } }", kF8},
    {"Fp8BlockLlama", kLlama, "tp: 2", "precision { parameter: BF16 matmul: FP8 fp8 { scaling: BLOCK } }", kBf16},
    {"F64", kGpt, "dp: 2", "precision { parameter: F64 }", 1e-9},
};

inline std::string Text(const Case& c, const std::string& train = "") {
  return StrCat(c.model, "train { steps: ", kSteps, " micro_batch: 2 ", c.train, " ", train, " }\nparallel { ",
                c.parallel, " }\n", "fabric { in_memory {} timeout_s: 300 }\n");
}
inline std::string OnGpu(const std::string& text) { return text + "device: CUDA\n"; }

}  // namespace twofold::test::strategies
