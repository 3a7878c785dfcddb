#include "core/proto/other_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/fields.h"

namespace twofold {
namespace {

struct OtherName {
  std::string_view theirs, ours;  // ours: a value of some enum
};

constexpr OtherName kOtherNames[] = {{"DDP", "NO_SHARD"},
                                     {"FSDP", "FULL_SHARD"},
                                     {"FSDP2", "FULL_SHARD"},
                                     {"HSDP", "HYBRID_SHARD"},
                                     {"ZERO1", "ZERO_1"},
                                     {"ZERO2", "ZERO_2"},
                                     {"ZERO3", "ZERO_3"},
                                     {"1F1B", "ONE_F_ONE_B"},
                                     {"INTERLEAVED", "INTERLEAVED_ONE_F_ONE_B"},
                                     {"ZB_H1", "ZERO_BUBBLE_H1"},
                                     {"ZB-H1", "ZERO_BUBBLE_H1"},
                                     {"ZB", "ZERO_BUBBLE_H1"},
                                     {"GPU", "CUDA"},
                                     {"BFLOAT16", "BF16"},
                                     {"FLOAT16", "F16"},
                                     {"HALF", "F16"},
                                     {"FP16", "F16"},
                                     {"FLOAT32", "F32"},
                                     {"FLOAT", "F32"},
                                     {"FP32", "F32"},
                                     {"FLOAT64", "F64"},
                                     {"DOUBLE", "F64"},
                                     {"FP64", "F64"},
                                     {"TORCH", "PYTORCH_EAGER"},
                                     {"PYTORCH", "PYTORCH_EAGER"}};

constexpr OtherField kOtherFields[] = {{"batch_size", "train.micro_batch"},
                                       {"batch_size", "train.global_batch"},
                                       {"micro_batch_size", "train.micro_batch"},
                                       {"per_device_train_batch_size", "train.micro_batch"},
                                       {"train_micro_batch_size_per_gpu", "train.micro_batch"},
                                       {"global_batch_size", "train.global_batch"},
                                       {"train_batch_size", "train.global_batch"},
                                       {"gradient_accumulation_steps", "train.micro_batch"},
                                       {"gradient_accumulation_steps", "train.global_batch"},
                                       {"learning_rate", "train.optimizer.sgd.lr"},
                                       {"learning_rate", "train.optimizer.adamw.lr"},
                                       {"max_steps", "train.steps"},
                                       {"num_steps", "train.steps"},
                                       {"train_iters", "train.steps"},
                                       {"iterations", "train.steps"},
                                       {"num_epochs", "train.epochs"},
                                       {"num_train_epochs", "train.epochs"},
                                       {"max_grad_norm", "train.clip_norm"},
                                       {"clip_grad", "train.clip_norm"},
                                       {"gradient_clipping", "train.clip_norm"},
                                       {"lr_scheduler", "train.schedule"},
                                       {"dataset", "data"},
                                       {"gradient_checkpointing", "train.activation_checkpointing"},
                                       {"recompute", "train.activation_checkpointing"},
                                       {"mixed_precision", "train.precision"},
                                       {"dtype", "train.precision.parameter"},
                                       {"bf16", "train.precision.parameter"},
                                       {"fp16", "train.precision.parameter"},
                                       {"world_size", "parallel.dp"},
                                       {"data_parallel", "parallel.dp"},
                                       {"data_parallel_size", "parallel.dp"},
                                       {"tensor", "parallel.tp"},
                                       {"tensor_parallel", "parallel.tp"},
                                       {"tensor_parallel_size", "parallel.tp"},
                                       {"tensor_model_parallel_size", "parallel.tp"},
                                       {"pipeline", "parallel.pp"},
                                       {"pipeline_parallel", "parallel.pp"},
                                       {"pipeline_parallel_size", "parallel.pp"},
                                       {"pipeline_model_parallel_size", "parallel.pp"},
                                       {"context_parallel_size", "parallel.cp"},
                                       {"expert_parallel_size", "parallel.ep"},
                                       {"expert_model_parallel_size", "parallel.ep"},
                                       {"ddp", "parallel.sharding"},
                                       {"fsdp", "parallel.sharding"},
                                       {"zero", "parallel.sharding"},
                                       {"zero_stage", "parallel.sharding"},
                                       {"zero_optimization", "parallel.sharding"},
                                       {"sharding_strategy", "parallel.sharding"},
                                       {"cpu_offload", "parallel.offload"},
                                       {"num_layers", "model.gpt.layers"},
                                       {"num_layers", "model.llama.layers"},
                                       {"hidden_size", "model.gpt.hidden"},
                                       {"hidden_size", "model.llama.hidden"},
                                       {"num_attention_heads", "model.gpt.heads"},
                                       {"num_attention_heads", "model.llama.heads"},
                                       {"seq_length", "model.gpt.sequence"},
                                       {"seq_length", "model.llama.sequence"},
                                       {"seq_len", "model.gpt.sequence"},
                                       {"seq_len", "model.llama.sequence"},
                                       {"vocab_size", "model.gpt.vocab"},
                                       {"vocab_size", "model.llama.vocab"}};

}  // namespace

std::span<const OtherField> OtherFields() { return kOtherFields; }

std::string ValueSuggestion(const std::string& value, const google::protobuf::FieldDescriptor& field) {
  const std::vector<std::string> known = ValueNames(field);
  const std::string upper = absl::AsciiStrToUpper(value);
  for (const OtherName& name : kOtherNames) {
    if (name.theirs == upper && std::find(known.begin(), known.end(), name.ours) != known.end())
      return StrCat("; did you mean ", name.ours, "? (known: ", absl::StrJoin(known, ", "), ")");
  }
  return Suggestion(value, known);
}

}  // namespace twofold
