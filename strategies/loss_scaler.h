// Loss scaling: the loss is multiplied by a scale before backward, so that gradients too small for F16 do not underflow
// to zero. The optimizer divides the gradients by the scale as it reads them (Micikevicius et al. 2018, "Mixed
// Precision Training", section 3.2).
//
// The scale is fixed or dynamic. The dynamic rule is that of NVIDIA's Apex and PyTorch's GradScaler: a step with
// non-finite gradients is skipped and lowers the scale, and a given number of good steps in a row raises it. A dynamic
// scale costs, per step, one pass over the gradients (their norm, which clipping needs too), one number sent between
// the ranks, and a wait of the host for it. A fixed scale costs nothing, but a non-finite gradient then reaches the
// parameters.
#pragma once

#include <array>
#include <cstdint>

namespace twofold {

struct LossScalerOptions {
  double scale = 1;  // fixed, or the first one
  bool dynamic = false;
  // The dynamic rule: factors by which a skipped step lowers the scale and `growth_interval` good steps in a row raise
  // it, and the lowest scale.
  double backoff = 0.5, growth = 2;
  int64_t growth_interval = 2000;
  double minimum = 1;
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options) : options_(options), state_{.scale = options.scale} {}

  double scale() const { return state_.scale; }  // for the next step's loss
  bool dynamic() const { return options_.dynamic; }
  // Called once a step if the scale is dynamic, with the same `finite` on every rank. Returns false if the step must
  // not update anything.
  bool Update(bool finite);

  // Saved in checkpoints.
  struct State {
    double scale = 1;
    int64_t good_steps = 0;  // since the scale last changed
    int64_t skipped = 0;     // steps, since training began
    std::array<double, 3> Save() const {
      return {scale, static_cast<double>(good_steps), static_cast<double>(skipped)};
    }
    static State Load(const std::array<double, 3>& saved) {
      return {saved[0], static_cast<int64_t>(saved[1]), static_cast<int64_t>(saved[2])};
    }
  };
  const State& state() const { return state_; }
  void set_state(const State& state);  // no effect if the scale is fixed: that of the options holds

 private:
  const LossScalerOptions options_;
  State state_;
};

}  // namespace twofold
