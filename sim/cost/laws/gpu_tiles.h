// The tiles that libraries have kernels for, by GPU generation.
//
// Sources: CUTLASS, media/docs/efficient_gemm (Volta, Ampere: 256 x 128 down to 64 x 64); names of cuBLAS' kernels for
// Hopper and Blackwell (nvjet: rows of 64 to 256, columns in steps of at most 32), limited by the accumulators that the
// registers of a multiprocessor (Hopper) or its tensor memory (Blackwell: 256 x 256) hold.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

// Half-width of intervals, as a share of the time, for laws without residuals.
inline constexpr double kUnknownLawError = 0.3;

struct GpuTile {
  int rows, columns;
};

// Empty if the generation is unknown.
std::span<const GpuTile> TilesOf(std::string_view generation);

// Whether the laws have the figures that they need. The message begins with field and value, and says what would be
// right.
absl::Status CheckLaws(const cluster::KernelLaws& laws);

}  // namespace twofold
