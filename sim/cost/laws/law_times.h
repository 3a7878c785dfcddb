// Times of operations by the laws of a device: which law an operation follows, and with which figures.
//
//   product                    ProductSeconds, times the factor of its layout (KernelLaws.nn_factor, nt_factor)
//   attention, ring attention  AttentionSeconds; a block's result is f32, and merged with a pass over it
// f32 and f64 products follow the law of bf16 with rates scaled by the data sheet's peaks. A gradient of weights that
// is added to writes and reads its sums.
//
// Assumes: scaled laws hold for types that no table has.
// Ignores: a fused GELU's own time.
// Calibrated from: see the laws.
#pragma once

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/device/ops.h"
#include "core/proto/cluster.pb.h"
#include "sim/cost/laws/attention_law.h"
#include "sim/cost/laws/product_law.h"

namespace twofold {

struct LawTime {
  double seconds;  // includes the least time of a kernel
  double error;    // half-width of the interval as a share of seconds
};

// What one device's laws gave, since a training repeats its operations.
struct LawCache {
  absl::flat_hash_map<ProductCall, double> products;  // seconds
  absl::flat_hash_map<AttentionCall, double> attention;
};

// Null if the device has no law for the operation. `cache` is of this device alone.
std::optional<LawTime> TimeByLaw(const cluster::Device& device, const ops::Op& op, LawCache& cache);

// Share of the peak that very long products sustain; 0 without a law of products.
double LastingShare(const cluster::Device& device);

// The peak rate of a type, in flops per second: f16's is that of bf16; a type without a figure uses f32's.
double PeakOf(const cluster::Device& device, DType dtype);

}  // namespace twofold
