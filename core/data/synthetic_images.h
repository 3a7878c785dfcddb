// Made-up images with a learnable label, for networks that need no files.
//
// Each class has a texture: a random pattern of 8 x 8 pixels with mean 0 in every channel, repeated over the image. A
// sample is its class's texture, shifted by a random offset, with a random sign, plus noise. Over offsets and signs,
// every pixel has mean 0 in each class. So a linear model learns nothing, while a convolutional one finds the texture
// at any offset. Samples are counter-based (Philox) and use only exact or correctly rounded arithmetic: the same
// options give the same samples on every machine, and each sample depends only on its index.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

struct SyntheticImageOptions {
  int64_t samples = 4096;
  int64_t height = 32, width = 32, channels = 3;
  int64_t classes = 10;  // at least 2
  uint64_t seed = 1;
};

// Input: F32 [height, width, channels], pixels of mean 0 and variance 2 (texture 1, noise 1); target: a scalar, U8 for
// up to 256 classes, else I32.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticImages(const SyntheticImageOptions& options);

}  // namespace twofold
