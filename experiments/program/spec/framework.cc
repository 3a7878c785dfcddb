// Defaults of another framework (core/proto/framework.proto).
#include <filesystem>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "topologies/check_fields.h"
#include "topologies/frameworks.h"

namespace twofold {

absl::Status ExpandFramework(spec::Spec& spec, const std::string& file) {
  if (spec.framework() == spec::TWOFOLD) {
    if (!spec.has_framework_profile()) return absl::OkStatus();
    return InvalidArgument(file, ": framework_profile: \"", spec.framework_profile(),
                           "\" describes a framework, but framework is TWOFOLD; set it to the one that is nearest");
  }
  if (spec.has_framework_profile()) {
    const std::filesystem::path path = spec.framework_profile();
    if (path.is_relative()) {
      const std::filesystem::path beside = std::filesystem::path(file).parent_path() / path;
      if (std::filesystem::exists(beside)) spec.set_framework_profile(beside.string());
    }
  }
  const absl::StatusOr<framework::Framework> found = FindFramework(spec);
  if (!found.ok()) return Within(StrCat(file, ": "), found.status());
  spec::Spec whole = found->defaults();
  whole.MergeFrom(spec);
  // It says how products are in FP8, not that they are; and codes are kept where that is possible.
  spec::Precision& precision = *whole.mutable_train()->mutable_precision();
  const spec::Precision& given = spec.train().precision();
  if (precision.matmul() != spec::Precision::FP8 && !given.has_fp8()) precision.clear_fp8();
  if (precision.has_fp8() && !given.fp8().has_keep_weights() && !WeightsStay(whole))
    precision.mutable_fp8()->clear_keep_weights();
  // It says how blocks are recomputed, not that they are.
  if (!spec.train().has_activation_checkpointing()) whole.mutable_train()->clear_activation_checkpointing();
  spec = std::move(whole);
  return absl::OkStatus();
}

}  // namespace twofold
