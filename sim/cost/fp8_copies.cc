#include "sim/cost/fp8_copies.h"

#include <cmath>

namespace twofold {
namespace {

int CapabilityOf(const cluster::Device& device) {
  return static_cast<int>(std::lround(10 * device.compute_capability()));  // 0: not known
}

double SecondsOf(Bytes moved, const cluster::Device& device) {
  return static_cast<double>(moved.value()) / (device.memory_bytes_per_second() * device.memory_efficiency());
}

}  // namespace

bool NeedsFp8AlongSum(const cluster::Device& device) {
  return device.has_compute_capability() && ops::rules::Fp8LiesAlongSum(CapabilityOf(device));
}

Fp8CopyTime CopiesBefore(const ops::MatMul& product, const cluster::Device& device, Fp8Layouts layouts) {
  if (!product.fp8() || layouts != Fp8Layouts::kCopied || !NeedsFp8AlongSum(device) ||
      !ops::rules::LibraryHasFp8(product, CapabilityOf(device)))
    return {};
  const ops::rules::Fp8Copies a = ops::rules::CudaFp8CopiesOfA(product), b = ops::rules::CudaFp8CopiesOfB(product);
  const Bytes codes = a.codes + b.codes, scales = a.scales + b.scales;
  const int kernels = (codes > Bytes(0) ? 1 : 0) + (scales > Bytes(0) ? 1 : 0);
  return {SecondsOf(codes + codes + scales + scales, device) + kernels * device.kernel_us() * 1e-6, kernels};
}

double MoreToRound(const ops::QuantiseFp8& rounding, const cluster::Device& device, Fp8Layouts layouts) {
  const ops::Fp8Blocks blocks = rounding.scaling.blocks;
  const bool once_for_each = blocks == ops::Fp8Blocks::kRow || blocks == ops::Fp8Blocks::kColumn;
  if (layouts != Fp8Layouts::kRounded || !NeedsFp8AlongSum(device) || once_for_each ||
      rounding.part == ops::QuantiseFp8::kLargest)
    return 0;
  return SecondsOf(rounding.codes.bytes(), device);
}

}  // namespace twofold
