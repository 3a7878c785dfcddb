// Random-k: a share of the elements, drawn anew in every step, is sent. All ranks draw the same ones, so no indices
// travel, and the values are averaged by the fabric's own collectives.
//   Stich et al. 2018, "Sparsified SGD with Memory", NeurIPS: definition 2.1 and algorithm 1.
//
// With d the density and n elements in a bucket:
//   memory         with error feedback, 4 n bytes (error_feedback.h)
//   communication  that of a plain mean of d n elements in F32: with N ranks, 8 d n (N - 1) / N bytes are sent if all
//                  keep the mean, half of that if each keeps a shard
//   compute        one pass that adds the residual; d n elements gathered and scattered
//   convergence    an element waits for 1 / d steps on average. Top-k at the same density loses less
// Use it when choosing the largest elements takes longer than what it saves, or on many ranks.
// Limits: without error feedback, values are multiplied by 1 / d so that their mean is right, and their variance grows
// as much.
#pragma once

#include "strategies/compression/error_feedback.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

struct RandomKOptions {
  double density = 0.01;  // of the elements, in (0, 1]; at least one of each shard is sent
  FeedbackOptions feedback;
};

MakeReducer RandomKReducers(const RandomKOptions& options);

}  // namespace twofold
