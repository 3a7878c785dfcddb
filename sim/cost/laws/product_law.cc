#include "sim/cost/laws/product_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace twofold {
namespace {

constexpr double kUs = 1e-6;
constexpr double kWithin = 2;  // tiles that take longer than this many times the best are never chosen
constexpr int64_t kMostSplits = 16, kLeastSplitDepth = 128;

double Norm(double a, double b, double power) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (larger <= 0) return 0;
  return larger * std::pow(1 + std::pow(smaller / larger, power), 1 / power);
}

// A tile twice as large as the result in a direction is never the best.
bool Fits(int tile, int64_t size) { return tile <= 64 || tile < 2 * size; }

// Microseconds of all tiles of r x c at the best split.
double TileTime(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call, GpuTile tile,
                double element) {
  const ProductShape& p = call.shape;
  const auto multiprocessors = static_cast<double>(laws.multiprocessors());
  const double area = tile.rows * tile.columns;
  const double multiply = 2 * area * multiprocessors / (law.tflops() * call.rate * 1e6),
               load = (tile.rows + tile.columns) * element / (law.load_gbytes_per_second() * 1e3);
  const double step = std::cbrt(multiply * multiply * multiply + load * load * load) / call.alignment;
  const int64_t count = p.batch * CeilDiv(p.m, tile.rows) * CeilDiv(p.n, tile.columns);
  const double fixed = law.tile_us() + law.store_ns() * 1e-6 * area;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t s = 1; s <= kMostSplits; s = s < 4 ? s + 1 : 2 * s) {
    if (s > 1 && (p.batch > 1 || p.k / s < kLeastSplitDepth || count * (s / 2 + 1) > 2 * laws.multiprocessors())) break;
    const double full = static_cast<double>(count * s) / multiprocessors, whole = std::ceil(full);
    const double waves = whole + law.evenness() * (std::max(1.0, full) - whole);
    double time = waves * (static_cast<double>(CeilDiv(p.k, s)) * step + fixed);
    if (s > 1) {
      const double elements = static_cast<double>(p.m) * static_cast<double>(p.n);
      time += elements * static_cast<double>(4 * s + 2) / (law.partial_tbytes_per_second() * 1e6) + law.tile_us();
    }
    best = std::min(best, time);
  }
  return best;
}

// Microseconds: the mean over the tiles that the library may choose.
double Tiles(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call, double element) {
  std::array<double, 64> times{};
  size_t count = 0;
  double best = std::numeric_limits<double>::infinity();
  for (const GpuTile tile : TilesOf(laws.generation())) {
    if (!Fits(tile.rows, call.shape.m) || !Fits(tile.columns, call.shape.n)) continue;
    times[count] = TileTime(laws, law, call, tile, element);
    best = std::min(best, times[count++]);
  }
  double weights = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (times[i] > kWithin * best) continue;
    const double weight = std::pow(best / times[i], law.selectivity());
    weights += weight, sum += weight * times[i];
  }
  return sum / weights;
}

// Microseconds of the product at the rate that the power limit leaves.
double PowerUs(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call) {
  const double burst = call.shape.flops() / (law.burst_tflops() * call.rate * 1e6);
  if (const double most = laws.training_tflops() * call.training; most > 0)
    return call.shape.flops() / (std::min(most, law.burst_tflops() * law.lasting_share()) * call.rate * 1e6);
  return burst / (law.lasting_share() + (1 - law.lasting_share()) / (1 + burst / law.settling_us()));
}

}  // namespace

double ProductSeconds(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call) {
  const ProductShape& p = call.shape;
  const bool eight_bits = law.dtype() != "bf16";
  const double element = call.element_bytes > 0 ? call.element_bytes : eight_bits ? 1 : 2;
  const double tiles = Tiles(laws, law, call, element);
  const auto b = static_cast<double>(p.batch), m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const double bytes = b * (element * (m + n) * k + call.result_bytes * m * n);
  const double memory = bytes / (law.memory_tbytes_per_second() * 1e6);
  const double power = PowerUs(laws, law, call);
  const double all =
      Norm(Norm(tiles, memory, law.sharpness()), power * power / std::max(tiles, power), law.sharpness());
  double us = all + law.call_us();
  if (eight_bits && !call.quantised) {
    us += m * law.quantise_ns() * 1e-3 + 3 * m * k / (law.quantise_tbytes_per_second() * 1e6);
    us = Norm(us, law.host_us(), 6);
  }
  return us * kUs;
}

const cluster::ProductLaw* ProductLawOf(const cluster::KernelLaws& laws, std::string_view dtype) {
  const cluster::ProductLaw* first = nullptr;
  for (const cluster::ProductLaw& law : laws.products()) {
    if (law.dtype() != dtype) continue;
    if (laws.has_column() && law.column() == laws.column()) return &law;
    if (first == nullptr) first = &law;
  }
  return first;
}

double ProductError(const cluster::ProductLaw& law, double flops) {
  double error = law.residuals().empty() ? kUnknownLawError : law.residuals(0).p90();
  for (const cluster::Residuals& r : law.residuals()) {
    if (flops >= r.from()) error = r.p90();
  }
  return error;
}

double TrainingError(const cluster::KernelLaws& laws) {
  if (laws.has_training_error()) return laws.training_error();
  return laws.training_tflops() > 0 ? 0 : kUnknownTrainingError;
}

double TrainingError(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call,
                     double seconds) {
  if (call.training == 0) return 0;
  return TrainingError(laws) * std::min(1.0, PowerUs(laws, law, call) * kUs / seconds);
}

}  // namespace twofold
