#include "strategies/loss_scaler.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold {
namespace {

constexpr double kLargest = 1e30;  // gradients of any type overflow long before

double FirstScale(const spec::Precision& precision) {
  if (!precision.has_loss_scale()) return 1;
  return precision.loss_scale().has_fixed() ? precision.loss_scale().fixed()
                                            : precision.loss_scale().dynamic().initial();
}

}  // namespace

LossScaler::LossScaler(const spec::Precision& precision)
    : rule_(precision.loss_scale().dynamic()),
      dynamic_(precision.loss_scale().has_dynamic()),
      state_{.scale = FirstScale(precision)} {}

bool LossScaler::Update(bool finite) {
  TWOFOLD_CHECK(dynamic_, "a fixed scale skips no step");
  if (!finite) {
    state_.scale = std::max(state_.scale * rule_.backoff(), rule_.minimum());
    state_.good_steps = 0;
    ++state_.skipped;
    return false;
  }
  if (++state_.good_steps >= rule_.growth_interval()) {  // above it if a resumed run has a shorter interval
    state_.scale = std::min(state_.scale * rule_.growth(), kLargest);
    state_.good_steps = 0;
  }
  return true;
}

void LossScaler::set_state(const State& state) {
  if (dynamic_) state_ = state;
}

}  // namespace twofold
