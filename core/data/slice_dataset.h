// A part of a dataset, as a dataset: for splitting into training and held-out samples.
#pragma once

#include <memory>

#include "core/data/dataset.h"

namespace twofold {

// Samples [first, first + count) of `whole`, renumbered from 0. REQUIRES: they exist, and count is at least 1.
std::unique_ptr<Dataset> MakeSlice(std::shared_ptr<const Dataset> whole, int64_t first, int64_t count);

}  // namespace twofold
