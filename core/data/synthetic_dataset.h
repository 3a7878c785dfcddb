// Made-up features with a learnable label, for models that need no files.
//
// Features are uniform with mean 0 and variance 1; the label is the class for which a fixed random linear map of the
// features is largest. Both are counter-based (Philox) and use only exact or correctly rounded arithmetic, so the same
// options give the same samples on every machine.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

struct SyntheticOptions {
  int64_t samples = 4096;  // at least 1
  int64_t inputs = 1;      // features per sample, at least 1
  int64_t classes = 2;     // at least 2
  uint64_t seed = 1;
};

// Input: F32 [inputs]; target: a scalar, U8 for up to 256 classes, else I32.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(const SyntheticOptions& options);

}  // namespace twofold
