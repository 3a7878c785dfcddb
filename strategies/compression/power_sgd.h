// PowerSGD: a matrix of gradients M [m, n] is sent as two factors P [m, r] and Q [n, r], found by one step of the power
// method that continues from the factor of the step before.
//   Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS:
//   algorithms 1 and 2.
//
//     P = mean(M Q);  orthogonalise P's columns;  Q = mean(M^T P);  the mean is P Q^T
//
// A parameter is a matrix of all its dimensions but the last by the last: of a convolution, kernel positions and input
// channels by output channels. It is compressed if that saves enough; all other parameters of a bucket travel with P,
// as they are.
//   memory         error feedback (error_feedback.h) for the whole bucket, and r (m + n) elements per matrix: 4 bytes
//                  each. During a reduction, another r (m + n) elements; with ZeRO, also the whole mean
//   communication  two dependent all-reduces of r m and r n elements per matrix, instead of one of m n. With ZeRO, too:
//                  every rank needs P and Q whole
//   compute        4 m n r FLOPs, then 2 m n r for the mean and as many for the residual; r^2 m to orthogonalise
//   convergence    with rank 4 as without compression in Vogels et al., table 3, if error feedback is on
// Use it where matrices are large and links slow: the sums are the fabric's own all-reduces, which stay fast on many
// ranks, and no element waits for its turn.
// Limits: with ZeRO-3 its state is as large as whole gradients, which sharding was meant to avoid. Gradients of high
// rank (embeddings that many tokens touch) lose most.
#pragma once

#include "strategies/compression/error_feedback.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

struct PowerSgdOptions {
  int64_t rank = 4;            // r; at most the smaller side of a matrix
  int64_t start_step = 10;     // earlier steps send whole gradients
  double min_compression = 2;  // compresses matrices whose m n is at least this times r (m + n)
  FeedbackOptions feedback;
};

MakeReducer PowerSgdReducers(const PowerSgdOptions& options);

}  // namespace twofold
