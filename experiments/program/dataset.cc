#include "experiments/program/dataset.h"

#include "core/data/synthetic_dataset.h"
#include "core/data/text_dataset.h"
#include "core/data/token_dataset.h"
#include "strategies/model_factory.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const spec::Spec& spec) {
  const spec::Data& data = spec.data();
  const ModelInput input = InputOf(spec.model());
  if (data.has_tokens()) return MakeTokenDataset(data.tokens().path(), input.length, input.classes);
  if (data.has_text()) return MakeTextDataset(data.text().path(), input.length);
  return MakeSyntheticDataset({.samples = data.synthetic().samples(),
                               .inputs = input.length,
                               .classes = input.classes,
                               .seed = spec.train().seed()});
}

}  // namespace twofold
