// From times of a GPU's products to the tiles that explain them.
//
// The fit changes one figure at a time (tiles' rates, what beginning a tile costs, memory's rate, a kernel's own time, the rate that no
// product exceeds) by a factor for as long as the mean of relative errors falls, none counted beyond kMostError: a few products that
// the library does unlike all others do not bend the rest. Tiles are candidates that libraries have; one that none uses ends up slow.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

struct ProductTime {
  std::string kernel;            // as ops::KernelKey
  std::array<int64_t, 3> dims;   // m, n, k
  double seconds;
};

inline constexpr double kMostError = 0.3;

// `grid`: those that the profile has as points. `between`: others, anywhere between; every third of them is left out of the fit, and tells
// whether predictions (the fit, times what neighbours of the grid take of it) beat those by rates alone, and how far they are off. Those
// whose rows are not aligned tell what that costs, and nothing else. One or more of the grid.
profile::Products FitProducts(const std::string& dtype, const std::vector<ProductTime>& grid, const std::vector<ProductTime>& between, int64_t multiprocessors);

}  // namespace twofold::calibrate
