// The consecutive part of a model that a pipeline stage holds. A model is an input side, a row of blocks and an output
// side.
#pragma once

#include <cstdint>

#include "core/base/check.h"

namespace twofold::nn {

// Parameters have the same names, hence the same initial values, as in the whole model.
struct ModelPart {
  int64_t first_block = 0, last_block = 0;  // [first, last)
  bool embedding = true, head = true;       // whether it has the input side and the output side
  static ModelPart Whole(int64_t layers) { return {0, layers, true, true}; }
  void CheckWithin(int64_t blocks) const {
    TWOFOLD_CHECK(0 <= first_block && first_block <= last_block && last_block <= blocks,
                  "a part is a range of the model's blocks");
  }
};

}  // namespace twofold::nn
