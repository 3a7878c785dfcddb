#include "experiments/program/dataset.h"

#include "core/data/image_files.h"
#include "core/data/synthetic_dataset.h"
#include "core/data/synthetic_images.h"
#include "core/data/text_dataset.h"
#include "core/data/token_dataset.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

ImageType ImagesFor(const ModelInput& input) {
  const bool images = input.kind == ModelInput::kImages;
  return {images ? Shape{input.height, input.width, input.channels} : Shape{input.length}, input.classes};
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeSynthetic(const spec::Spec& spec, const ModelInput& input) {
  const int64_t samples = spec.data().synthetic().samples();
  if (input.kind == ModelInput::kImages) {
    return MakeSyntheticImages({.samples = samples,
                                .height = input.height,
                                .width = input.width,
                                .channels = input.channels,
                                .classes = input.classes,
                                .seed = spec.train().seed()});
  }
  return MakeSyntheticDataset(
      {.samples = samples, .inputs = input.length, .classes = input.classes, .seed = spec.train().seed()});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const spec::Spec& spec) {
  const spec::Data& data = spec.data();
  const ModelInput input = ModelOf(spec.model())->input();
  if (data.has_tokens()) return MakeTokenDataset(data.tokens().path(), input.length, input.classes);
  if (data.has_text()) return MakeTextDataset(data.text().path(), input.length);
  if (data.has_idx()) return MakeIdxDataset(data.idx().images(), data.idx().labels(), ImagesFor(input));
  if (data.has_cifar10()) return MakeCifar10Dataset(data.cifar10().path(), data.cifar10().test(), ImagesFor(input));
  return MakeSynthetic(spec, input);
}

}  // namespace twofold
