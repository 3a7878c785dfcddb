// Top-k: only the elements of largest magnitude are sent, as values and indices. The rest stays in the residual until
// it has grown.
//   Aji and Heafield 2017, "Sparse Communication for Distributed Gradient Descent", EMNLP.
//   Lin et al. 2018, "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training", ICLR:
//   sections 3.1 (momentum correction), 3.2 (local clipping), 3.3 (momentum factor masking, warm-up).
//
// With d the density and n elements in a bucket:
//   memory         error feedback, as in coded_reducer.h; with momentum correction 4 n bytes more
//   communication  n elements are 8 d n bytes. If all N ranks keep the mean, each receives what all others chose,
//                  8 d n (N - 1) bytes: more than an all-reduce of F32 once d N > 1
//   compute        a radix select over the bucket, two passes or more; as many additions as elements are received
//   convergence    late elements come with the gradients of older parameters. With d = 0.01 and momentum correction,
//                  Lin et al. report no loss; without it, SGD with momentum loses
// Use it with SGD on few ranks and slow links; with ZeRO also on many, since there each rank receives only its shard.
// Limits: the elements are chosen by bucket, or by shard of it, so that messages have sizes that do not depend on
// values. Lin et al. choose by layer.
#pragma once

#include "strategies/compression/codec.h"

namespace twofold {

struct TopKOptions {
  double density = 0.01;  // of the elements, in (0, 1]; at least one element is sent
  // In the first `warmup_steps` steps the density falls exponentially from 1/4 to `density`.
  int64_t warmup_steps = 0;
  // Before it is added to the residual, a bucket's gradient is scaled to at most clip_norm / sqrt(N) if its norm is
  // larger. N: the ranks of the mean. 0: it is not.
  double clip_norm = 0;
  // The momentum with which gradients are added up before elements are chosen. The optimizer must then have none. 0:
  // gradients are added up as they are.
  double momentum = 0;
};
// Gradients must not contain a loss scale if clip_norm or momentum is set.

// The number of elements that are sent of `numel`.
int64_t ChosenOf(const TopKOptions& options, int64_t numel, int64_t step);

MakeCodec TopKCodecs(const TopKOptions& options);

}  // namespace twofold
