#include "strategies/loss_scaler.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold {
namespace {

constexpr double kLargest = 1e30;  // gradients of any type overflow long before

}  // namespace

bool LossScaler::Update(bool finite) {
  TWOFOLD_CHECK(options_.dynamic, "a fixed scale skips no step");
  if (!finite) {
    state_.scale = std::max(state_.scale * options_.backoff, options_.minimum);
    state_.good_steps = 0;
    ++state_.skipped;
    return false;
  }
  if (++state_.good_steps >= options_.growth_interval) {  // above it if a resumed run has a shorter interval
    state_.scale = std::min(state_.scale * options_.growth, kLargest);
    state_.good_steps = 0;
  }
  return true;
}

void LossScaler::set_state(const State& state) {
  if (options_.dynamic) state_ = state;
}

}  // namespace twofold
