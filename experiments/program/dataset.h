// The samples that a spec names.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `spec` is resolved. Errors name the file and what is accepted.
absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const spec::Spec& spec);

}  // namespace twofold
