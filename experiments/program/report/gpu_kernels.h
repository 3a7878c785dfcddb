// What kind of work the GPU kernels of PyTorch and its libraries do, by their names.
#pragma once

#include <span>
#include <string_view>

namespace twofold {

enum class GpuWork { kProduct, kAttention, kNorm, kElement, kLoss, kOptimizer, kCommunication, kTransfer, kOther };

// A kernel whose name has `part` in it, in upper or lower case. `part` is in lower case.
struct GpuKernelRow {
  std::string_view part;
  GpuWork is;
};

std::span<const GpuKernelRow> GpuKernelRows();  // the first row that fits decides

// kOther if no row fits. Copies count as kernels: "Memcpy HtoD" is a transfer.
GpuWork GpuWorkOf(std::string_view name);

// "products", "attention", "norms", ... For kernels of this program too (core/device/kernel_names.h).
std::string_view WorkName(std::string_view kernel);

}  // namespace twofold
