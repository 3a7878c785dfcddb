// Learning-rate schedules: pure functions of the step.
#pragma once

#include <cstdint>

namespace twofold::optim {

// Warm-up: step s of the first `warmup_steps` uses (s + 1) / warmup_steps of the rate, so the line starts at 0 before
// the first step and reaches the rate with the last. Then, until step `decay_steps` (counted from the beginning,
// warm-up included), the rate falls to min_ratio of itself, along half a cosine (Loshchilov and Hutter 2017) or a line,
// and stays there.
struct LrSchedule {
  enum Kind { kConstant, kCosine, kLinear } kind = kConstant;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // not used by kConstant; if <= warmup_steps: no decay, min_ratio at once
  double min_ratio = 0;     // not used by kConstant
};

// The factor on the base rate at `step`, counted from 0.
double Factor(const LrSchedule& schedule, int64_t step);

}  // namespace twofold::optim
