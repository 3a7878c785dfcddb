// What is measured of a CPU: every kernel, at sizes that span a GPT of hidden 64 to 768 with 64 to 4096 rows a micro-batch, and a
// residual network of 16 to 256 channels. Of a GPU: gpu_cases.h.
#pragma once

#include <functional>
#include <vector>

#include "core/device/ops.h"
#include "experiments/program/calibrate/arena.h"

namespace twofold::calibrate {

struct Case {
  std::function<ops::Op(Operands&)> make;  // the operation, on operands of its own
};

// The same list, in the same order, wherever it is made. `quick`: a third of the sizes.
std::vector<Case> Cases(bool quick);

}  // namespace twofold::calibrate
