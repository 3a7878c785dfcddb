// Times of operations by the laws of a device: which law an operation follows, and with which figures.
//
//   product                    ProductSeconds, times the factor of its layout (KernelLaws.nn_factor, nt_factor)
//   attention, ring attention  AttentionSeconds; a block's result is f32, and merged with a pass over it
// f32 and f64 products follow the law of bf16 with rates scaled by the data sheet's peaks. A gradient of weights that
// is added to writes and reads its sums. Products of FP8 operands follow the law of fp8 or, if 128 elements share a
// scale, of fp8_block, without the tables' time for quantising x, which is an operation of its own here
// (ops::QuantiseFp8); all three products have the layout of the tables, to which operands come by copies
// (fp8_copies.h).
//
// Assumes: scaled laws hold for types that no table has.
// Ignores: a fused GELU's own time.
// Calibrated from: see the laws.
#pragma once

#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "core/device/ops.h"
#include "core/proto/cluster.pb.h"
#include "sim/cost/laws/attention_law.h"
#include "sim/cost/laws/product_law.h"

namespace twofold {

struct LawTime {
  double seconds;  // includes the least time of a kernel
  double error;    // half-width of the interval as a share of seconds
  bool fitted;     // measurements of this type, of work as large, checked the law
};

// What one device's laws gave, since a training repeats its operations.
struct LawCache {
  absl::flat_hash_map<ProductCall, double> products;  // seconds
  absl::flat_hash_map<ProductCall, double> fp8_products, fp8_block_products;
  absl::flat_hash_map<ProductCall, double>& products_of(std::string_view dtype) {
    return dtype == "fp8" ? fp8_products : dtype == "fp8_block" ? fp8_block_products : products;
  }
  absl::flat_hash_map<AttentionCall, double> attention;
};

// The dtype of the law that products in FP8 follow: "fp8" or "fp8_block" (cluster.ProductLaw).
std::string_view Fp8LawOf(const ops::Fp8Scaling& scaling);

// Null if the device has no law for the operation. `cache` is of this device alone. parts: of a product
// (CostModel::TimeOfPart).
std::optional<LawTime> TimeByLaw(const cluster::Device& device, const ops::Op& op, LawCache& cache, int64_t parts = 1);

// Share of the peak that very long products sustain; 0 without a law of products.
double LastingShare(const cluster::Device& device);

// The peak rate of a type, in flops per second: f16's is that of bf16; a type without a figure uses f32's.
double PeakOf(const cluster::Device& device, DType dtype);

}  // namespace twofold
