// The time of codes in FP8 that lie along a product's sum, which cuBLASLt needs on most GPUs
// (ops::rules::Fp8LiesAlongSum): operands of the two backward products lie across it.
//
//   kCopied    as device CUDA does it (kernels/cuda/fp8_library.cu): before a product, one kernel transposes those
//              operands, and with scales of blocks another one arranges the scales. Each byte is read and written once
//   kRounded   as Transformer Engine does it: rounding writes codes in both layouts, 1 byte an element more, and scales
//              where products want them. Rounding to blocks of 1 x 128 writes one layout, as it is done once for each
//   kAsTheyLie no copies: products read the codes as they lie, as our own kernels do
//
// Assumes: a copy of codes moves bytes at the rate of any other kernel that follows its bytes.
// Ignores: that Transformer Engine, where ranks gather codes (sequence_parallel), transposes after that, in another
// kernel; that parameters which ranks gather are rounded twice here. Addresses that are not aligned, and cuBLASLt's
// version. A device whose compute_capability is not known has no such copies.
// Calibrated from: nothing. A profile of a GPU has measured products together with their copies.
#pragma once

#include "core/device/ops.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

enum class Fp8Layouts { kCopied, kRounded, kAsTheyLie };

struct Fp8CopyTime {
  double seconds = 0;
  int kernels = 0;  // that are launched for it
};

bool NeedsFp8AlongSum(const cluster::Device& device);

// What comes before a product on this device. 0 for products that are not of FP8 codes.
Fp8CopyTime CopiesBefore(const ops::MatMul& product, const cluster::Device& device, Fp8Layouts layouts);

// Seconds by which rounding takes longer.
double MoreToRound(const ops::QuantiseFp8& rounding, const cluster::Device& device, Fp8Layouts layouts);

}  // namespace twofold
