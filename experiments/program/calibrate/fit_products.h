// Fits a tile model to measured times of a GPU's matrix products.
//
// The fit changes one figure at a time by a factor (tiles' rates, the cost of starting a tile, memory's rate, a
// kernel's own time, the rate that no product exceeds) for as long as the mean of relative errors falls. Errors count
// up to kMostError only, so a few products that the library handles unlike all others do not bend the rest. Tiles are
// candidates that libraries have; a tile that no product uses ends up slow.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

struct ProductTime {
  std::string kernel;           // as in ops::KernelKey
  std::array<int64_t, 3> dims;  // m, n, k
  double seconds;
};

inline constexpr double kMostError = 0.3;

// `grid`: products that become points of the profile; at least one. `between`: products of any size between them. Every
// third of `between` is left out of the fit. It tells whether predictions (the fit, scaled by its error at neighbours
// in the grid) beat predictions by rates alone, and how far off they are. Products in `between` with unaligned rows
// give the cost of misalignment and nothing else.
profile::Products FitProducts(const std::string& dtype, const std::vector<ProductTime>& grid,
                              const std::vector<ProductTime>& between, int64_t multiprocessors);

}  // namespace twofold::calibrate
