#include "experiments/spec/presets.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "experiments/spec/fields.h"
#include "experiments/spec/spec.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

// GPT-2's sizes are those of Radford et al. 2019, table 2, as released: vocabulary 50,257, context 1,024.
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
    {"mlp-small", "two hidden layers for synthetic data, 85 thousand parameters",
     "mlp { inputs: 64 hidden: [256, 256] classes: 10 }"},
};

std::string_view KindName(const spec::Model& model) { return FindModelKind(model.kind_case())->name; }

// A list given replaces the preset's: clears in `model` the lists that `written`, of the same kind, has.
void ClearListsOf(const spec::Model& written, spec::Model& model) {
  const auto* kind = written.GetReflection()->GetOneofFieldDescriptor(
      written, spec::Model::descriptor()->FindOneofByName("kind"));
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
    TWOFOLD_CHECK(google::protobuf::TextFormat::ParseFromString(std::string(preset.model), &model),
                  preset.name);
  }
  const std::string where = StrCat(file, ": model.preset: \"", written.preset(), "\"");
  if (model.kind_case() == spec::Model::KIND_NOT_SET) {
    return absl::InvalidArgumentError(StrCat(where, " is not a preset", Suggestion(written.preset(), known)));
  }
  if (written.kind_case() != spec::Model::KIND_NOT_SET && written.kind_case() != model.kind_case()) {
    return absl::InvalidArgumentError(StrCat(where, " is of kind ", KindName(model),
                                             ", but model.", KindName(written),
                                             " is given too; keep one of them"));
  }
  ClearListsOf(written, model);
  model.MergeFrom(written);
  *spec.mutable_model() = model;
  return absl::OkStatus();
}

}  // namespace twofold
