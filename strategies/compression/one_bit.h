// 1-bit SGD: every element becomes its sign, every block of 1024 elements has its mean magnitude as a scale. What the
// signs leave out is added to the next step's gradients.
//   Seide et al. 2014, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of
//   Speech DNNs", Interspeech: sections 2 and 3.1.
//   Karimireddy et al. 2019, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML: algorithm 1,
//   for the scale. Seide et al. have two values for each column of a matrix instead.
//
//   memory         error feedback, as in coded_reducer.h
//   communication  n elements are n / 8 bytes, and 4 bytes per block: 1/31 of F32's bytes
//   compute        one pass to encode, one to decode
//   convergence    slower than without compression at first, since all elements of a block take steps of one size. Adam
//                  divides by estimates that are then too large; one_bit_adam is made for it
// Use it on the slowest links, with SGD.
// Limits: it does not converge without error feedback.
#pragma once

#include "strategies/compression/codec.h"

namespace twofold {

MakeCodec OneBitCodecs();

}  // namespace twofold
