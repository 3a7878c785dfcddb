// A part of a dataset, as a dataset: what is trained on, what is held out.
#pragma once

#include <memory>

#include "core/data/dataset.h"

namespace twofold {

// Samples [first, first + count) of `whole`, numbered from 0. REQUIRES: they exist, and count is 1 or more.
std::unique_ptr<Dataset> MakeSlice(std::shared_ptr<const Dataset> whole, int64_t first, int64_t count);

}  // namespace twofold
