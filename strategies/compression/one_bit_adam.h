// 1-bit Adam: what the ranks exchange after a warm-up is their momentum, as signs with error feedback. Signs of
// gradients do not work with Adam, because its second moment is not linear in the gradient. So the second moment is
// frozen when it has become stable, and what is left is linear: momentum SGD with a learning rate for each element.
//   Tang et al. 2021, "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed", ICML:
//   algorithm 1; section 3.2 for compressed_allreduce (coded_reducer.h).
//
// In the first freeze_step steps, gradients are averaged as in DDP. From then on, with m the momentum
// that all ranks share, g a rank's gradient and C the mean of encoded tensors:
//   m' = C(beta1 m + (1 - beta1) g + error)                     algorithm 1, lines 6 to 13
//   the optimizer is given (m' - beta1 m) / (1 - beta1)         the gradient with which m becomes m'
// So sums over the ranks of one copy of the model and fixed loss scales work on it as on any mean of gradients.
//
//   memory         error feedback as in coded_reducer.h, allocated from the start. The momentum is the optimizer's
//   communication  as DDP before freezing; then n / 8 bytes and 4 bytes per block of 1024 for n gradients: 1/31 of F32
//   compute        as one_bit.h, and three passes before and after for momentum
//   convergence    Adam's, if the second moment is stable when it is frozen: about a sixth of the steps, in the paper.
//                  Adam's bias corrections are kept (the paper has none): that of the second moment is frozen with it
// Use it on slow links, where Adam is needed.
// Limits: every rank must have the whole momentum, so it is for layouts that shard no optimizer state.
#pragma once

#include "strategies/compression/error_feedback.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

struct OneBitAdamOptions {
  double beta1 = 0.9;  // the optimizer's; above 0
  int64_t freeze_step = 100;
  DType reduce = DType::kF32;  // the type of gradients that are sent before freezing
  FeedbackOptions feedback;
};
// For an optimizer that keeps "exp_avg", makes an update in every step, and freezes its second moment after as many.
MakeReducer OneBitAdamReducers(const OneBitAdamOptions& options);

}  // namespace twofold
