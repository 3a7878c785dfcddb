#include "experiments/program/spec/presets.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

// GPT-2's sizes are those of Radford et al. 2019, table 2, as released: vocabulary 50,257, context 1,024. Those of
// LLaMA (Touvron et al. 2023a, table 2), Llama 2 (Touvron et al. 2023b), Llama 3 (Dubey et al. 2024, table 3),
// Llama 3.2 and Mistral (Jiang et al. 2023, table 1) are as released.
constexpr ModelPreset kPresets[] = {
    {"gpt-3m", "the quickstart model: byte-level text, 3.2 million parameters",
     "gpt { layers: 4 hidden: 256 heads: 4 vocab: 256 sequence: 128 }"},
    {"gpt2-124m", "GPT-2 small, 124 million parameters",
     "gpt { layers: 12 hidden: 768 heads: 12 vocab: 50257 sequence: 1024 }"},
    {"gpt2-350m", "GPT-2 medium, 355 million parameters",
     "gpt { layers: 24 hidden: 1024 heads: 16 vocab: 50257 sequence: 1024 }"},
    {"gpt2-774m", "GPT-2 large, 774 million parameters",
     "gpt { layers: 36 hidden: 1280 heads: 20 vocab: 50257 sequence: 1024 }"},
    {"gpt2-1.5b", "GPT-2 XL, 1.56 billion parameters",
     "gpt { layers: 48 hidden: 1600 heads: 25 vocab: 50257 sequence: 1024 }"},
    {"gpt3-175b", "GPT-3 (Brown et al. 2020, table 2.1), 175 billion parameters, every layer's attention dense",
     "gpt { layers: 96 hidden: 12288 heads: 96 vocab: 50257 sequence: 2048 }"},
    {"llama-3m", "Llama's architecture for this machine: byte-level text, 3.1 million parameters",
     "llama { layers: 4 hidden: 256 heads: 8 kv_heads: 4 ffn: 704 vocab: 256 sequence: 128 }"},
    {"llama-30b", "LLaMA, 32.5 billion parameters: \"30B\" or \"33B\"",
     "llama { layers: 60 hidden: 6656 heads: 52 ffn: 17920 vocab: 32000 sequence: 2048 norm_eps: 1e-6 }"},
    {"llama2-7b", "Llama 2, 6.74 billion parameters",
     "llama { layers: 32 hidden: 4096 heads: 32 ffn: 11008 vocab: 32000 sequence: 4096 }"},
    {"llama2-13b", "Llama 2, 13.0 billion parameters",
     "llama { layers: 40 hidden: 5120 heads: 40 ffn: 13824 vocab: 32000 sequence: 4096 }"},
    {"llama2-70b", "Llama 2, 69.0 billion parameters",
     "llama { layers: 80 hidden: 8192 heads: 64 kv_heads: 8 ffn: 28672 vocab: 32000 sequence: 4096 }"},
    {"llama3-8b", "Llama 3, 8.03 billion parameters",
     "llama { layers: 32 hidden: 4096 heads: 32 kv_heads: 8 ffn: 14336 vocab: 128256 sequence: 8192 rope_theta: 500000 "
     "}"},
    {"llama3-70b", "Llama 3, 70.6 billion parameters",
     "llama { layers: 80 hidden: 8192 heads: 64 kv_heads: 8 ffn: 28672 vocab: 128256 sequence: 8192 rope_theta: 500000 "
     "}"},
    {"llama3.2-1b", "Llama 3.2, 1.24 billion parameters, at the sequence before it was extended",
     "llama { layers: 16 hidden: 2048 heads: 32 kv_heads: 8 head_dim: 64 ffn: 8192 vocab: 128256 sequence: 8192 "
     "rope_theta: 500000 tied_embeddings: true rope_scaling { llama3 { factor: 32 low_freq_factor: 1 "
     "high_freq_factor: 4 original_sequence: 8192 } } }"},
    {"llama3-405b", "Llama 3.1, 405.9 billion parameters, at the sequence of its main pre-training",
     "llama { layers: 126 hidden: 16384 heads: 128 kv_heads: 8 ffn: 53248 vocab: 128256 sequence: 8192 rope_theta: "
     "500000 rope_scaling { llama3 { factor: 8 low_freq_factor: 1 high_freq_factor: 4 original_sequence: 8192 } } }"},
    {"mistral-7b", "Mistral 7B v0.1, 7.24 billion parameters, sequences up to its window",
     "llama { layers: 32 hidden: 4096 heads: 32 kv_heads: 8 ffn: 14336 vocab: 32000 sequence: 4096 sliding_window: "
     "4096 }"},
    {"mixtral-8x7b",
     "Mixtral 8x7B (Jiang et al. 2024, table 1), 46.7 billion parameters, two of eight experts for every token",
     "moe { experts: 8 top_k: 2 aux_loss: 0.02 llama { layers: 32 hidden: 4096 heads: 32 kv_heads: 8 ffn: 14336 vocab: "
     "32000 sequence: 4096 rope_theta: 1000000 } }"},
    {"moe-10m", "Mixtral's architecture for this machine: byte-level text, 9.6 million parameters, two of four experts",
     "moe { experts: 4 top_k: 2 llama { layers: 4 hidden: 256 heads: 8 kv_heads: 4 ffn: 704 vocab: 256 sequence: 128 } "
     "}"},
    {"resnet18", "ResNet-18 (He et al. 2016, table 1) for ImageNet, 11.7 million parameters",
     "cnn { height: 224 width: 224 widths: [64, 128, 256, 512] blocks: [2, 2, 2, 2] classes: 1000 stem: IMAGENET }"},
    {"resnet18-cifar", "ResNet-18 with a stem for images of 32 x 32, 11.2 million parameters",
     "cnn { widths: [64, 128, 256, 512] blocks: [2, 2, 2, 2] classes: 10 }"},
    {"cnn-small", "a residual network for this machine: images of 32 x 32, 152 thousand parameters",
     "cnn { widths: [16, 32, 64] blocks: [1, 1, 2] classes: 10 }"},
    {"mlp-small", "two hidden layers for synthetic data, 85 thousand parameters",
     "mlp { inputs: 64 hidden: [256, 256] classes: 10 }"},
};

// The field of the oneof that says the sizes; null if none is set.
const google::protobuf::FieldDescriptor* KindOf(const spec::Model& model) {
  return model.GetReflection()->GetOneofFieldDescriptor(model, spec::Model::descriptor()->FindOneofByName("kind"));
}

// A given list replaces the preset's: clears in `model` the lists that `written`, of the same kind, has.
void ClearListsOf(const spec::Model& written, spec::Model& model) {
  const auto* kind = KindOf(written);
  if (kind == nullptr) return;
  const google::protobuf::Message& from = written.GetReflection()->GetMessage(written, kind);
  google::protobuf::Message& to = *model.GetReflection()->MutableMessage(&model, kind);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const auto* field : fields)
    if (field->is_repeated()) to.GetReflection()->ClearField(&to, field);
}

}  // namespace

absl::Span<const ModelPreset> ModelPresets() { return kPresets; }

absl::Status ExpandPreset(spec::Spec& spec, const std::string& file) {
  const spec::Model& written = spec.model();
  if (!written.has_preset()) return absl::OkStatus();
  spec::Model model;
  std::vector<std::string> known;
  for (const ModelPreset& preset : kPresets) {
    known.emplace_back(preset.name);
    if (written.preset() != preset.name) continue;
    TWOFOLD_CHECK(google::protobuf::TextFormat::ParseFromString(std::string(preset.model), &model), preset.name);
  }
  const std::string where = StrCat(file, ": model.preset: \"", written.preset(), "\"");
  if (model.kind_case() == spec::Model::KIND_NOT_SET) {
    return InvalidArgument(where, " is not a preset", Suggestion(written.preset(), known));
  }
  if (written.kind_case() != spec::Model::KIND_NOT_SET && written.kind_case() != model.kind_case()) {
    return InvalidArgument(where, " is of kind ", KindOf(model)->name(), ", but model.", KindOf(written)->name(),
                           " is given too; keep one of them");
  }
  ClearListsOf(written, model);
  model.MergeFrom(written);
  *spec.mutable_model() = model;
  return absl::OkStatus();
}

}  // namespace twofold
