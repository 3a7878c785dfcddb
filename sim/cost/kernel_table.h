// What one kernel costs at any size, from the sizes that calibration measured.
//
// The table holds a rate at each measured point: flops per second for products, convolutions and attention, bytes per
// second for all other kernels. Between points the rate is interpolated linearly in logarithms (multilinear over the
// grid that the points' dimensions span; a corner of the grid that was not measured has the rate of the nearest
// measured point).
//   * At a measured point the answer is the measured time.
//   * Beyond the measured sizes the rate of the nearest ones holds, so time grows linearly with the work.
//   * No call is faster than the fastest measured one, which is the cost of a call itself.
// On a GPU, the fixed time of a kernel also matters: there the time is interpolated by work, linearly in the
// dimensions, so that a + b * work is met exactly. If a law gives the time by sizes, such as the tile formula for
// products, the ratio of the measured time to the law's is interpolated, linearly in logarithms.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/device/ops.h"
#include "core/proto/profile.pb.h"

namespace twofold {

// Whether the kernel's rate counts flops (products, convolutions, attention). Otherwise it counts bytes.
bool CountsFlops(std::string_view kernel);

class KernelTable {
 public:
  enum class Between { kRates, kTimes };
  using Law = std::function<double(const std::array<int64_t, 3>& dims)>;  // seconds
  // `kernel` must have at least one point, each as ReadProfile requires.
  explicit KernelTable(const profile::Kernel& kernel, Between between = Between::kRates, Law law = nullptr);

  struct Result {
    double seconds, low, high;
    bool inside;    // each dimension, and their product, is within the measured range
    bool measured;  // at a measured point, with that point's time
  };
  // `dims` as in ops::KernelKey. `cost` is that of the requested operation, which may touch more or fewer bytes than
  // the measured one of equal dims (another element type, an output that is added to).
  Result At(const std::array<int64_t, 3>& dims, const ops::Cost& cost) const;

  // Work per second at the largest point: the kernel's streaming rate.
  double LargestRate() const;
  double least_seconds() const { return least_seconds_; }

 private:
  using Coordinates = std::array<double, 3>;  // logarithms of dims
  struct Point {
    Coordinates at;
    double log_rate, log_low, log_high;  // of the rate, or of law time / measured time; of low and high over the median
    double seconds;
  };
  struct Axis {
    size_t below, above;  // indices into an axis' grid lines
    double weight;        // of `above`
  };
  Axis Locate(int axis, double x) const;
  const Point& Nearest(const Coordinates& at) const;

  bool flops_;
  Between between_;
  Law law_;
  double least_seconds_ = 0, least_size_ = 0, largest_size_ = 0;  // sizes: logarithms of the dims' product
  std::array<std::vector<double>, 3> lines_;                      // the grid that the points span, ascending
  std::vector<Point> points_;                                     // by ascending size
};

}  // namespace twofold
