// The kinds of model. Each has a row, which makes a Model from the sizes that a spec states.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "core/base/check.h"
#include "core/nn/dropout.h"
#include "strategies/models/model.h"

namespace twofold {

// What a spec states beside the sizes of a model, for all kinds.
struct ModelOptions {
  bool unfused_attention = false;
  nn::DropoutMasks masks = nn::DropoutMasks::kRecomputed;
};

struct ModelKind {
  std::string_view name;  // the field of a spec's model that has its sizes
  // `sizes`: the message in this field. Sizes may be missing or absurd; they are copied as they are.
  std::unique_ptr<const Model> (*make)(const google::protobuf::Message& sizes, const ModelOptions& options);
};

absl::Span<const ModelKind* const> ModelKinds();
const ModelKind* FindModelKind(std::string_view name);  // null if no kind has this name

// ---- The rows ----
extern const ModelKind kCnnModel, kGptModel, kLlamaModel, kMlpModel, kMoeModel;

// For rows: `sizes` as the message that the row's field has.
template <class Sizes>
const Sizes& SizesAs(const google::protobuf::Message& sizes) {
  TWOFOLD_CHECK_EQ(sizes.GetDescriptor()->full_name(), Sizes::descriptor()->full_name());
  return static_cast<const Sizes&>(sizes);
}

}  // namespace twofold
