// The calibration cases of a CPU: every kernel, at sizes that cover a GPT of hidden size 64 to 768 with 64 to 4096 rows
// per micro-batch, and a residual network of 16 to 256 channels. For a GPU see gpu_cases.h.
#pragma once

#include <functional>
#include <vector>

#include "core/device/ops.h"
#include "experiments/program/calibrate/arena.h"

namespace twofold::calibrate {

struct Case {
  std::function<ops::Op(Operands&)> make;  // makes the operation, with operands of its own
};

// Every call returns the same list in the same order. `quick`: a third of the sizes.
std::vector<Case> Cases(bool quick);

}  // namespace twofold::calibrate
