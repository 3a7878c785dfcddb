#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace twofold::optim {

double Factor(const LrSchedule& s, int64_t step) {
  if (step < s.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (s.kind == LrSchedule::kConstant) return 1;
  const int64_t span = s.decay_steps - s.warmup_steps;
  const double progress =
      span <= 0 ? 1 : std::min(1.0, static_cast<double>(step - s.warmup_steps) / static_cast<double>(span));
  const double left = s.kind == LrSchedule::kLinear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return s.min_ratio + (1 - s.min_ratio) * left;
}

}  // namespace twofold::optim
