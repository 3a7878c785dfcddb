#include "core/base/strings.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

constexpr int64_t kMany = int64_t{1} << 31;

// Separate validation data is checked like training data, in its place.
void CheckOwnData(const spec::Spec& spec, Problems& problems) {
  const spec::Validation& v = spec.train().validation();
  if (v.data().kind_case() == spec::Data::KIND_NOT_SET) {
    return problems.Add("train.validation.data",
                        "is empty; name data, such as text { path: \"folder\" }, or leave it out to hold some of the "
                        "training data out");
  }
  if (v.data().has_synthetic()) {
    return problems.Add("train.validation.data.synthetic",
                        "would be the same samples as the training data; leave train.validation.data out to hold out "
                        "some of data.synthetic");
  }
  spec::Spec other = spec;
  *other.mutable_data() = v.data();
  other.clear_fabric();  // its profile is not checked twice
  other.clear_emulated();
  Problems found = problems.None();
  CheckData(other, found);
  problems.AddMoved(found, "data", "train.validation.data");
}

}  // namespace

void CheckValidation(const spec::Spec& spec, Problems& problems) {
  if (!spec.train().has_validation()) return;
  const spec::Validation& v = spec.train().validation();
  if (v.has_every_steps()) problems.Whole("train.validation.every_steps", v.every_steps(), 1, kMany);
  if (v.has_samples()) problems.Whole("train.validation.samples", v.samples(), 1, kMany);
  if (v.has_fraction()) {
    if (v.has_samples() || v.has_data()) {
      problems.Add("train.validation.fraction", "is given beside train.validation.",
                   v.has_samples() ? "samples" : "data", "; keep one of them");
    } else if (problems.Fraction("train.validation.fraction", v.fraction())) {
      problems.Above("train.validation.fraction", v.fraction(), 0);
    }
  }
  problems.Whole("train.validation.batch", v.batch(), 1, 1 << 16);
  problems.Whole("train.validation.patience", v.patience(), 0, kMany);
  problems.AtLeast("train.validation.min_delta", v.min_delta(), 0);
  if (v.min_delta() > 0 && v.patience() == 0) {
    problems.Add(
        "train.validation.min_delta",
        "is only for early stopping, which train.validation.patience = 0 switches off; use a patience of 1 or more");
  }
  if (v.has_data()) CheckOwnData(spec, problems);
}

}  // namespace twofold
