// Block-wise quantisation: every element becomes a code of a few bits, every block of elements has a scale.
//   Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", ICLR: section 2.1, with evenly spaced levels.
//   Alistarh et al. 2017, "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS: section
//   3.1, stochastic rounding. Its mean is the value itself, so it needs no error feedback.
//
//   memory         with error feedback as in coded_reducer.h; without it, nothing lasts
//   communication  n elements are bits / 8 n bytes, and 4 bytes per block of `block` elements
//   compute        one pass to encode, one to decode; with stochastic rounding also a random number per element
//   convergence    with 8 bits as without compression, to what a curve shows. With 4 bits use error feedback
// Use it first: it works with any optimizer, and no setting needs care. 8 bits send a fourth of F32's bytes.
// Limits: one outlier makes the levels of its whole block coarse. A smaller block helps, and costs scales.
#pragma once

#include "strategies/compression/codec.h"

namespace twofold {

struct QuantizeOptions {
  int bits = 8;         // 4 or 8; 32: elements travel as F32, without loss, for comparison
  int64_t block = 256;  // elements that share a scale: 256, 512 or 1024
  bool stochastic = false;
};

MakeCodec QuantizeCodecs(const QuantizeOptions& options);

}  // namespace twofold
