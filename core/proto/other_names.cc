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

}  // namespace

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
