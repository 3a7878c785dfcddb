#include "sim/cost/laws/law_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace twofold {
namespace {

constexpr int64_t kFullRow = 128;  // bytes: rows that are multiples of it are read in full lines
constexpr double kUnmeasured = 2;  // times the error, for types and layouts that no table has
// Of bf16's rate under the power limit: products of random operands reach 257 TFLOP/s on A100 (He 2024; assumed to be
// of f16, since the type is not stated) and 271 in bf16 (Bekman).
constexpr double kF16Share = 257 / 271.2;
// Likewise of fp8: the largest products, which are at that limit, are so much faster than bf16's in the tables' columns
// of cuBLASLt (TensorRT-LLM): 1.80 on H100, 1.87 on H200, 1.93 on B200, 1.92 on GB200 (medians of 1e13 operations and
// more).
constexpr double kFp8Share = 1.88, kFp8ShareError = 0.04;  // products with scales of blocks: assumed to be alike

double AlignmentShare(const cluster::KernelLaws& laws, int64_t bytes) {
  double share = 1;
  bool known = false;
  for (const cluster::Kernels::Alignment& a : laws.alignments()) {
    if (bytes >= a.bytes() || !known) share = a.efficiency();
    known = true;
  }
  return bytes >= kFullRow ? 1 : share;
}

// Of the region that the work is in.
template <class Law>
bool Checked(const Law& law, double work) {
  bool checked = false;
  for (const cluster::Residuals& r : law.residuals()) {
    if (work >= r.from()) checked = r.count() > 0;
  }
  return checked;
}

bool Narrow(DType type) { return type == DType::kBF16 || type == DType::kF16; }

// A device whose products in f16 are limited by power more than those in bf16.
double TrainingRate(DType type) { return type == DType::kF16 ? kF16Share : 1; }

struct TypeRates {
  double rate, element_bytes;
};
TypeRates RatesOf(const cluster::Device& device, DType type) {
  if (Narrow(type)) return {1, 2};
  return {PeakOf(device, type) / PeakOf(device, DType::kBF16), static_cast<double>(ElementSize(type))};
}

std::optional<LawTime> ProductTimeOf(const cluster::Device& device, ProductCall call, DType type, double factor,
                                     LawCache& cache) {
  const cluster::ProductLaw* law = ProductLawOf(device.laws(), "bf16");
  if (law == nullptr) return std::nullopt;
  const TypeRates rates = RatesOf(device, type);
  call.rate = rates.rate, call.element_bytes = rates.element_bytes, call.training = TrainingRate(type);
  const auto [known, is_new] = cache.products.try_emplace(call);
  if (is_new) known->second = ProductSeconds(device.laws(), *law, call);
  const double error =
      std::hypot(ProductError(*law, call.shape.flops() / rates.rate) * (Narrow(type) ? 1 : kUnmeasured),
                 TrainingError(device.laws(), *law, call, known->second));
  return LawTime{factor * known->second, error, Narrow(type) && Checked(*law, call.shape.flops())};
}

std::optional<LawTime> Fp8TimeOf(const cluster::Device& device, const ops::MatMul& product, ProductCall call,
                                 LawCache& cache) {
  const cluster::ProductLaw* law = ProductLawOf(device.laws(), Fp8LawOf(product.a_scaling));
  if (law == nullptr) return std::nullopt;
  call.quantised = true, call.training = kFp8Share;
  const auto [known, is_new] = cache.products_of(law->dtype()).try_emplace(call);
  if (is_new) known->second = ProductSeconds(device.laws(), *law, call);
  const double error = std::hypot(kUnmeasured * ProductError(*law, call.shape.flops()), kFp8ShareError,
                                  TrainingError(device.laws(), *law, call, known->second));
  return LawTime{known->second, error, false};
}

double LayoutFactor(const cluster::KernelLaws& laws, const ops::MatMul& product) {
  if (product.transpose_a) return laws.nt_factor();
  return product.transpose_b ? 1 : laws.nn_factor();
}

std::optional<LawTime> TimeOf(const cluster::Device& device, const ops::MatMul& product, const ops::KernelKey& key,
                              int64_t parts, LawCache& cache) {
  const int64_t bytes =
      std::gcd(std::gcd(product.a.dim(1), product.b.dim(1)) * ElementSize(product.a.dtype()), kFullRow);
  const auto result = static_cast<double>(ElementSize(product.out.dtype()));
  const bool accumulate = product.accumulate && !device.kernels().separate_accumulation();
  const ProductCall call{.shape = {1, key.dims[0] * parts, key.dims[1], key.dims[2]},
                         .result_bytes = accumulate ? 2 * result : result,
                         .alignment = AlignmentShare(device.laws(), bytes)};
  std::optional<LawTime> whole =
      product.fp8() ? Fp8TimeOf(device, product, call, cache)
                    : ProductTimeOf(device, call, key.dtype, LayoutFactor(device.laws(), product), cache);
  if (whole) whole->seconds /= static_cast<double>(parts);
  return whole;
}

std::optional<LawTime> TimeOf(const cluster::Device& device, const ops::BatchedMatMul& product,
                              const ops::KernelKey& key, LawCache& cache) {
  return ProductTimeOf(device,
                       {.shape = {product.batches * product.heads, product.m, product.n, product.k},
                        .result_bytes = static_cast<double>(ElementSize(key.dtype))},
                       key.dtype, 1, cache);
}

std::optional<LawTime> AttentionTimeOf(const cluster::Device& device, AttentionCall call, DType type, double more_bytes,
                                       LawCache& cache) {
  const cluster::AttentionLaw* law = AttentionLawOf(device.laws());
  if (law == nullptr) return std::nullopt;
  const TypeRates rates = RatesOf(device, type);
  call.rate = rates.rate, call.element_bytes = rates.element_bytes;
  const double more = more_bytes / (law->memory_tbytes_per_second() * 1e12);
  const double error = AttentionError(*law, call.queries);
  const auto [known, is_new] = cache.attention.try_emplace(call);
  if (is_new) known->second = AttentionSeconds(device.laws(), *law, call);
  const bool same = Narrow(type) && !call.backward;
  return LawTime{known->second + more, error * (same ? 1 : kUnmeasured),
                 same && Checked(*law, static_cast<double>(call.queries))};
}

template <class Attention>
AttentionCall CallOf(const Attention& op, bool backward) {
  const int64_t t = op.qkv.dim(1), width = op.qkv.dim(2) / (op.heads + 2 * op.kv_heads);
  return {op.qkv.dim(0), t, t, op.heads, op.kv_heads, width, op.causal, backward};
}

AttentionCall CallOf(const ops::AttentionBlock& b, int64_t batch, bool backward) {
  return {batch, b.queries, b.keys, b.heads, b.kv_heads, b.head_dim, b.causal, backward};
}

// Bytes by which a block's f32 results, and what they are merged with, exceed results of the operands' type.
double BlockBytes(const ops::AttentionBlock& b, int64_t batch, DType type, bool again) {
  const auto elements = static_cast<double>(batch * b.queries * b.heads * b.head_dim);
  return elements * static_cast<double>((again ? 8 : 4) - ElementSize(type));
}

}  // namespace

std::string_view Fp8LawOf(const ops::Fp8Scaling& scaling) {
  return scaling.blocks == ops::Fp8Blocks::kTensor ? "fp8" : "fp8_block";
}

double PeakOf(const cluster::Device& device, DType dtype) {
  double peak = 0;
  if (Narrow(dtype)) peak = device.bf16_flops_per_second();
  if (dtype == DType::kF64) peak = device.f64_flops_per_second();
  return peak > 0 ? peak : device.f32_flops_per_second();
}

std::optional<LawTime> TimeByLaw(const cluster::Device& device, const ops::Op& op, LawCache& cache, int64_t parts) {
  if (!device.has_laws()) return std::nullopt;
  const ops::KernelKey key = ops::Key(op);
  if (const auto* o = std::get_if<ops::MatMul>(&op.any())) return TimeOf(device, *o, key, parts, cache);
  if (const auto* o = std::get_if<ops::BatchedMatMul>(&op.any())) return TimeOf(device, *o, key, cache);
  if (const auto* o = std::get_if<ops::AttentionForward>(&op.any()))
    return AttentionTimeOf(device, CallOf(*o, false), key.dtype, 0, cache);
  if (const auto* o = std::get_if<ops::AttentionBackward>(&op.any()))
    return AttentionTimeOf(device, CallOf(*o, true), key.dtype, 0, cache);
  if (const auto* o = std::get_if<ops::AttentionBlockForward>(&op.any())) {
    const int64_t batch = o->q.dim(0);
    return AttentionTimeOf(device, CallOf(o->block, batch, false), key.dtype,
                           BlockBytes(o->block, batch, key.dtype, o->merge), cache);
  }
  if (const auto* o = std::get_if<ops::AttentionBlockBackward>(&op.any())) {
    const int64_t batch = o->q.dim(0);
    return AttentionTimeOf(device, CallOf(o->block, batch, true), key.dtype,
                           BlockBytes(o->block, batch, key.dtype, o->accumulate), cache);
  }
  return std::nullopt;
}

double LastingShare(const cluster::Device& device) {
  const cluster::ProductLaw* law = ProductLawOf(device.laws(), "bf16");
  if (law == nullptr) return 0;
  const double training = device.laws().training_tflops(), lasting = law->burst_tflops() * law->lasting_share();
  return std::min({law->tflops(), lasting, training > 0 ? training : lasting}) * 1e12 / PeakOf(device, DType::kBF16);
}

}  // namespace twofold
