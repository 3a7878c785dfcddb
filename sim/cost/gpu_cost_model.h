// The time of operations on a GPU, from how their kernels fill it.
//
// A product's result is cut into tiles, each computed by one multiprocessor. Tiles run in waves of as many as there are
// multiprocessors M, and the last wave takes as long as a full one ("tile and wave quantization": NVIDIA, Matrix
// Multiplication Background User's Guide, section 3). If there are few tiles, k is split among several multiprocessors,
// whose partial sums are added up from memory (CUTLASS, Efficient GEMM, "Parallelized Reductions"). The library takes
// the best tile:
//
//   product of b matrices [m, k] * [k, n]:  the larger of  bytes / memory  and, at the best tile r x c and splits s,
//     ceil(b ceil(m / r) ceil(n / c) s / M) * 2 r c (ceil(k / s) + tile_depth)
//         / (peak * matmul_efficiency * e(r x c) / M)
//                                                            + (s > 1: m n (4 s + size of an element) / memory)
//     and at least  flops / (peak * sustained_efficiency):  a GPU that multiplies on all multiprocessors reaches its
//     power limit and lowers its clock, and if a wave leaves some idle, the others run faster (He 2024, "Strangely,
//     Matrix Multiplications on GPUs Run Faster When Given 'Predictable' Data!")
//   attention, convolution:                 max(flops / (peak * the lower efficiency), bytes / memory)
//   everything else:                        bytes / memory
//   each * factor + kernel_us;              memory = memory_bytes_per_second * memory_efficiency
//
// where e is lower if rows of an operand are not aligned to 16 bytes, because they are then loaded in smaller pieces
// (the same guide, section 2, "Requirements to use tensor cores"): for products of one matrix, it is multiplied by
// `alignments.efficiency`. The peak is that of the operation's element type (f16 uses that of bf16; a type without a
// figure uses f32's). Splits apply only to products of one matrix, s = 1, 2, ... most_splits.
//
// If the device has laws (cluster.KernelLaws, sim/cost/laws), products and attention follow these instead.
//
// Codes in FP8 that lie along a product's sum take time before products or in rounding (fp8_copies.h).
//
// Frameworks differ, and the file describes how. kernels.kernels.factor: kernels that move more bytes than the
// operation has (a cross-entropy in many passes) or fewer (an addition that is fused into the kernel before it).
// kernels.kernels.launch_us: differs if the interpreter runs the forward pass and an engine the backward pass, or if
// one launch updates many tensors. If the file lists add, add_to, gelu_forward or gelu_backward among its kernels, then
// a sum beside a norm, or a GELU beside a product, which our operations do in one pass (sim/cost/passes.h), is a
// separate kernel. separate_accumulation: a weight's gradient is a separate product, and another kernel, of 3 m n
// elements, adds it up.
//
// Beside communication, whose kernels keep c multiprocessors and b bytes a second of memory, a product or attention by
// laws is the same law with M - c multiprocessors and what is left of memory's bandwidth; the power limit stays. Other
// products and attention take M / (M - c) times as long; everything else memory / (memory - b), since fewer
// multiprocessors still fill the memory's bandwidth. Of each, at least a quarter is left. NVIDIA's kernels of products
// are launched for all M multiprocessors, so they may lose a whole wave where the law has persistent ones lose a share.
//
// Assumes: tiles of one kernel take equally long; a kernel begins when the one before it has ended.
// Ignores: caches, alignment of batched products and of results, other effects of the operands' layout.
// Calibrated from: the cluster's file. The files of experiments/studies/published_runs have these fields; the
// catalogue's do not.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "sim/cost/fp8_copies.h"
#include "sim/cost/laws/law_times.h"
#include "sim/cost/tiled_products.h"

namespace twofold {

class GpuCostModel : public CostModel {
 public:
  // `device` must have kernels that CheckKernels accepts or laws that CheckLaws accepts, and a bandwidth and an f32
  // peak above 0.
  explicit GpuCostModel(const cluster::Device& device, Fp8Layouts fp8 = Fp8Layouts::kCopied);

  Estimate Time(const ops::Op& op) override { return TimeOf(op, 1); }
  Estimate TimeOfPart(const ops::MatMul& product) override { return TimeOf(product, product.parts); }
  double Slowdown(const ops::Op& op, const BesideIt& takes) override;
  std::string Describe() const;  // one line for a report's notes

 private:
  Estimate TimeOf(const ops::Op& op, int64_t parts);  // parts: of a product, that run side by side; by laws only
  // Seconds, without reading the operands.
  double Tiled(const ProductShape& p, double peak, int64_t element_size, double aligned) const;
  double LargeEfficiency() const;                                     // share of peak of convolutions
  double Aligned(const ops::MatMul& product) const;                   // the efficiency by its operands' alignment
  const cluster::Kernels::Kernel& Of(std::string_view kernel) const;  // the default if the file has none
  bool Names(std::string_view kernel) const;
  struct Rest {
    cluster::Device device;
    LawCache cache;
  };
  Rest& Left(double multiprocessors, double share_of_memory);  // what is left of the device's laws

  cluster::Device device_;
  const Fp8Layouts fp8_;
  double memory_;  // bytes per second
  TiledProducts products_;
  LawCache cache_;
  std::map<std::pair<double, double>, Rest> left_;
};

// Whether `kernels` has the figures that the model needs; the message begins with the field, value and what would be
// right. A device without kernels is accepted.
absl::Status CheckKernels(const cluster::Device& device);

}  // namespace twofold
