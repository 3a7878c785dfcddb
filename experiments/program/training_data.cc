#include "experiments/program/training_data.h"

#include <utility>

#include "core/base/status.h"
#include "core/data/slice_dataset.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/dataset.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

// The dataset of train.validation.data; null if it is unset.
absl::StatusOr<std::unique_ptr<Dataset>> OwnValidationData(const spec::Spec& spec) {
  if (!spec.train().validation().has_data()) return nullptr;
  spec::Spec other = spec;
  *other.mutable_data() = spec.train().validation().data();
  return MakeDataset(other);
}

}  // namespace

absl::StatusOr<TrainingData> LoadTrainingData(spec::Spec& spec, const std::string& file) {
  absl::StatusOr<std::unique_ptr<Dataset>> data = MakeDataset(spec);
  if (!data.ok()) return data.status();
  absl::StatusOr<std::unique_ptr<Dataset>> own = OwnValidationData(spec);
  if (!own.ok()) return own.status();
  const DataSizes sizes{.data = (*data)->size(), .validation = *own == nullptr ? 0 : (*own)->size()};
  if (absl::Status status = ResolveLength(spec, file, sizes); !status.ok()) return status;

  if (!spec.train().has_validation()) return TrainingData{.training = *std::move(data), .validation = nullptr};
  if (*own != nullptr) return TrainingData{.training = *std::move(data), .validation = *std::move(own)};
  const std::shared_ptr<const Dataset> whole = *std::move(data);
  const int64_t held_out = spec.train().validation().samples(), rest = whole->size() - held_out;
  return TrainingData{.training = MakeSlice(whole, 0, rest), .validation = MakeSlice(whole, rest, held_out)};
}

absl::StatusOr<std::optional<checkpoint::Opened>> ResolveResume(spec::Spec& spec, const std::string& file) {
  if (!spec.train().has_resume()) return std::nullopt;
  absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(spec.train().resume());
  const absl::Status fits = opened.ok()
                                ? checkpoint::CheckFits(opened->path, opened->manifest, TrainingOptionsOf(spec).run)
                                : opened.status();
  if (!fits.ok()) return InvalidArgument(file, ": train.resume: ", std::string(fits.message()));
  for (const std::string& bad : opened->passed_over) LogWarning("train.resume: skipped ", bad);
  spec.mutable_train()->set_resume(opened->path);
  return *std::move(opened);
}

}  // namespace twofold
