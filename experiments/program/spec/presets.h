// The named models.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace twofold {

struct ModelPreset {
  std::string_view name;
  std::string_view summary;
  std::string_view model;  // the content of a spec's `model { ... }`
};

absl::Span<const ModelPreset> ModelPresets();

}  // namespace twofold
