// Loads the data that a run trains and validates on, and completes the spec with what follows from their sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"
#include "core/io/checkpoint_folder.h"
#include "core/proto/spec.pb.h"
#include "strategies/trainer.h"

namespace twofold {

struct TrainingData {
  std::unique_ptr<Dataset> training, validation;  // no validation: null
  Samples samples() const { return {*training, validation.get()}; }
};

// `spec` has been resolved; ResolveLength (experiments/program/spec/spec.h) completes it here. Errors name the file,
// the field and what is accepted.
absl::StatusOr<TrainingData> LoadTrainingData(spec::Spec& spec, const std::string& file);

// Finds the checkpoint that train.resume names, checks it against the spec, and writes its path into the spec. nullopt
// if train.resume names none.
absl::StatusOr<std::optional<checkpoint::Opened>> ResolveResume(spec::Spec& spec, const std::string& file);

}  // namespace twofold
