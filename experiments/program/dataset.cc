#include "experiments/program/dataset.h"

#include "core/data/synthetic_dataset.h"
#include "core/data/text_dataset.h"
#include "core/data/token_dataset.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const spec::Spec& spec) {
  const spec::Data& data = spec.data();
  const spec::Gpt& gpt = spec.model().gpt();
  if (data.has_tokens()) return MakeTokenDataset(data.tokens().path(), gpt.sequence(), gpt.vocab());
  if (data.has_text()) return MakeTextDataset(data.text().path(), gpt.sequence());
  const spec::Mlp& mlp = spec.model().mlp();
  return MakeSyntheticDataset({.samples = data.synthetic().samples(),
                               .inputs = mlp.inputs(),
                               .classes = mlp.classes(),
                               .seed = spec.train().seed()});
}

}  // namespace twofold
