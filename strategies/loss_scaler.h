// What the loss is multiplied by before backward, so that gradients too small for F16 do not vanish; the optimizer divides
// them by it as it reads them (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2).
//
// The scale is fixed, or looked for while training: a step whose gradients are not finite is skipped and lowers it, and so
// many good steps in a row raise it (the dynamic rule of NVIDIA's Apex and PyTorch's GradScaler). A dynamic scale costs one
// pass over the gradients a step (their norm, which clipping needs too), a number that travels between the ranks, and the
// host's waiting for it. A fixed one costs nothing, and a gradient that is not finite reaches the parameters.
#pragma once

#include <array>
#include <cstdint>

#include "core/proto/spec.pb.h"

namespace twofold {

class LossScaler {
 public:
  explicit LossScaler(const spec::Precision& precision);  // resolved; without loss_scale: fixed at 1

  double scale() const { return state_.scale; }  // of the next step's loss
  bool dynamic() const { return dynamic_; }
  // Called once a step when dynamic, with the same verdict on every rank; false: the step must not update anything.
  bool Update(bool finite);

  // What a checkpoint keeps.
  struct State {
    double scale = 1;
    int64_t good_steps = 0;  // since the scale last changed
    int64_t skipped = 0;     // steps, since training began
    std::array<double, 3> Save() const { return {scale, static_cast<double>(good_steps), static_cast<double>(skipped)}; }
    static State Load(const std::array<double, 3>& saved) {
      return {saved[0], static_cast<int64_t>(saved[1]), static_cast<int64_t>(saved[2])};
    }
  };
  const State& state() const { return state_; }
  void set_state(const State& state);  // nothing, where the scale is fixed: it is the spec's

 private:
  const spec::LossScale::Dynamic rule_;
  const bool dynamic_;
  State state_;
};

}  // namespace twofold
