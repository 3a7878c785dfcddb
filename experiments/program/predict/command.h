// twofold predict: many predictions, side by side.
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

void AddPredictCommand(const Command& program, int& exit_status);  // as those of experiments/program/commands.h

}  // namespace twofold
