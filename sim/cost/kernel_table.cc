#include "sim/cost/kernel_table.h"

#include <algorithm>
#include <cmath>

namespace twofold {
namespace {

double LogSize(int64_t dim) { return std::log(static_cast<double>(std::max<int64_t>(dim, 1))); }

double Total(const std::array<double, 3>& at) { return at[0] + at[1] + at[2]; }

// Logarithms of equal integers are equal, so this only has to cover rounding in the sum of three.
constexpr double kSlack = 1e-9;

}  // namespace

bool CountsFlops(std::string_view kernel) {
  for (const std::string_view product : {"matmul_", "batched_matmul_", "attention_", "conv"})
    if (kernel.starts_with(product)) return true;
  return false;
}

KernelTable::KernelTable(const profile::Kernel& kernel, Between between, Law law)
    : flops_(CountsFlops(kernel.name())), between_(between), law_(std::move(law)) {
  TWOFOLD_CHECK(kernel.points_size() > 0, "a kernel of a profile has points");
  least_seconds_ = kernel.points(0).seconds();
  for (const profile::Point& p : kernel.points()) {
    Point point{};
    std::array<int64_t, 3> dims{};
    for (int i = 0; i < 3; ++i) {
      const auto axis = static_cast<size_t>(i);
      dims[axis] = i < p.dims_size() ? p.dims(i) : 0;
      point.at[axis] = LogSize(dims[axis]);
    }
    point.log_rate = std::log((law_ ? law_(dims) : flops_ ? p.flops() : p.bytes()) / p.seconds());
    point.log_low = p.low() > 0 ? std::log(p.low() / p.seconds()) : 0;
    point.log_high = p.high() > 0 ? std::log(p.high() / p.seconds()) : 0;
    point.seconds = p.seconds();
    least_seconds_ = std::min(least_seconds_, p.seconds());
    points_.push_back(point);
  }
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return Total(a.at) < Total(b.at); });
  least_size_ = Total(points_.front().at);
  largest_size_ = Total(points_.back().at);
  for (size_t i = 0; i < 3; ++i) {
    for (const Point& p : points_) lines_[i].push_back(p.at[i]);
    std::sort(lines_[i].begin(), lines_[i].end());
    lines_[i].erase(std::unique(lines_[i].begin(), lines_[i].end()), lines_[i].end());
  }
}

double KernelTable::LargestRate() const {
  TWOFOLD_CHECK(!law_, "rates of a kernel without a law");
  return std::exp(points_.back().log_rate);
}

KernelTable::Axis KernelTable::Locate(int axis, double x) const {
  const std::vector<double>& lines = lines_[static_cast<size_t>(axis)];
  const size_t above = static_cast<size_t>(std::lower_bound(lines.begin(), lines.end(), x) - lines.begin());
  if (above == lines.size()) return {above - 1, above - 1, 0};
  if (above == 0 || lines[above] == x) return {above, above, 0};
  const auto part = [&](auto of) { return (of(x) - of(lines[above - 1])) / (of(lines[above]) - of(lines[above - 1])); };
  const bool linear = between_ == Between::kTimes && !law_;
  return {above - 1, above,
          linear ? part([](double log) { return std::exp(log); }) : part([](double log) { return log; })};
}

const KernelTable::Point& KernelTable::Nearest(const Coordinates& at) const {
  const Point* best = &points_.front();
  double least = 1e300;
  for (const Point& p : points_) {
    double distance = 0;
    for (size_t i = 0; i < 3; ++i) distance += (p.at[i] - at[i]) * (p.at[i] - at[i]);
    if (distance < least) least = distance, best = &p;
  }
  return *best;
}

KernelTable::Result KernelTable::At(const std::array<int64_t, 3>& dims, const ops::Cost& cost) const {
  Coordinates at;
  std::array<Axis, 3> axes;
  bool inside = true;
  for (size_t i = 0; i < 3; ++i) {
    at[i] = LogSize(dims[i]);
    axes[i] = Locate(static_cast<int>(i), at[i]);
    inside = inside && at[i] >= lines_[i].front() && at[i] <= lines_[i].back();
  }
  inside = inside && Total(at) >= least_size_ - kSlack && Total(at) <= largest_size_ + kSlack;

  const bool times = between_ == Between::kTimes && !law_;
  double log_rate = 0, log_low = 0, log_high = 0, inverse = 0, weights = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    Coordinates place;
    for (size_t i = 0; i < 3; ++i) {
      const bool above = (corner >> i & 1) != 0;
      weight *= above ? axes[i].weight : 1 - axes[i].weight;
      place[i] = lines_[i][above ? axes[i].above : axes[i].below];
    }
    if (weight == 0) continue;
    const Point& p = Nearest(place);
    if (times) weight *= std::exp(Total(place));  // times add up: weights a corner by its work
    weights += weight, inverse += weight * std::exp(-p.log_rate);
    log_rate += weight * p.log_rate, log_low += weight * p.log_low, log_high += weight * p.log_high;
  }
  if (times) log_rate = -std::log(inverse / weights), log_low /= weights, log_high /= weights;
  const double work = law_ ? law_(dims) : flops_ ? cost.flops.value() : static_cast<double>(cost.bytes().value());
  const double seconds = std::max(work / std::exp(log_rate), least_seconds_);
  const Point& nearest = Nearest(at);
  const bool measured = nearest.at == at && std::abs(seconds - nearest.seconds) <= kSlack * seconds;
  return {seconds, seconds * std::exp(log_low), seconds * std::exp(log_high), inside, measured};
}

}  // namespace twofold
