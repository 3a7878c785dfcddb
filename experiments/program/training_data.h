// What a run trains on and what it validates on, read; and the spec with what follows from their sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"
#include "core/proto/spec.pb.h"
#include "core/io/checkpoint_folder.h"
#include "strategies/trainer.h"

namespace twofold {

struct TrainingData {
  std::unique_ptr<Dataset> training, validation;  // no validation: null
  Samples samples() const { return {*training, validation.get()}; }
};

// `spec` has been resolved; ResolveLength (experiments/program/spec/spec.h) completes it here. Errors name the file, the field and
// what would be right.
absl::StatusOr<TrainingData> LoadTrainingData(spec::Spec& spec, const std::string& file);

// The checkpoint that train.resume names, found and held against the spec, which gets its path; none where it names none.
absl::StatusOr<std::optional<checkpoint::Opened>> ResolveResume(spec::Spec& spec, const std::string& file);

}  // namespace twofold
