#include "experiments/program/calibrate/fit_products.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/program/calibrate/samples.h"
#include "sim/cost/kernel_table.h"
#include "sim/cost/measured_products.h"

namespace twofold::calibrate {
namespace {

constexpr std::pair<int64_t, int64_t> kTiles[] = {{256, 128}, {128, 256}, {192, 128}, {128, 192}, {256, 192},
                                                  {192, 256}, {256, 64},  {64, 256},  {128, 128}, {128, 64},
                                                  {64, 128},  {64, 64},   {128, 32},  {32, 128}};
constexpr int64_t kMostSplits = 12;
constexpr size_t kMostPoints = 500;  // of the grid: more add nothing to the fit and take time
constexpr int kMostRounds = 80;

double FlopsOf(const ProductTime& p) {
  return 2 * static_cast<double>(p.dims[0] * p.dims[1]) * static_cast<double>(p.dims[2]);
}

int64_t Alignment(const ProductTime& p, int64_t element_size) { return AlignmentOf(p.kernel, p.dims, element_size); }

double Loss(const MeasuredProducts& model, const std::vector<ProductTime>& points) {
  double sum = 0;
  for (const ProductTime& p : points)
    sum += std::min(std::abs(std::log(model.Seconds(p.kernel, p.dims) / p.seconds)), kMostError);
  return sum / static_cast<double>(points.size());
}

// Start of the search: the fastest product's rate for large tiles, lower rates for small ones.
MeasuredProducts Beginning(const std::vector<ProductTime>& points, int64_t multiprocessors, int64_t element_size) {
  double fastest = 0, least = points[0].seconds, bytes_per_second = 0;
  for (const ProductTime& p : points) {
    const auto [m, n, k] = p.dims;
    fastest = std::max(fastest, FlopsOf(p) / p.seconds), least = std::min(least, p.seconds);
    bytes_per_second =
        std::max(bytes_per_second, static_cast<double>((m * k + k * n + m * n) * element_size) / p.seconds);
  }
  MeasuredProducts model{
      .tiles = {.tiles = {}, .multiprocessors = multiprocessors, .tile_depth = 64, .most_splits = kMostSplits},
      .bytes_per_second = 1.2 * bytes_per_second,
      .kernel_s = least / 2,
      .flops_per_second = fastest,
      .element_size = element_size,
      .alignments = {}};
  for (const auto& [rows, columns] : kTiles) {
    const auto area = static_cast<double>(rows * columns);
    model.tiles.tiles.push_back({rows, columns, fastest * 1.05 * (area + 1600) / (area + 4000)});
  }
  return model;
}

void Search(MeasuredProducts& model, const std::vector<ProductTime>& points) {
  std::vector<double*> figures = {&model.flops_per_second, &model.bytes_per_second, &model.kernel_s,
                                  &model.tiles.tile_depth};
  for (TiledProducts::Tile& tile : model.tiles.tiles) figures.push_back(&tile.efficiency);
  std::vector<double> steps(figures.size(), 0.1);
  double loss = Loss(model, points);
  for (int round = 0; round < kMostRounds; ++round) {
    const double before = loss;
    for (size_t i = 0; i < figures.size(); ++i) {
      const double value = *figures[i];
      bool better = false;
      for (const double sign : {1.0, -1.0}) {
        *figures[i] = value * std::exp(sign * steps[i]);
        const double tried = Loss(model, points);
        if (tried < loss) {
          loss = tried, better = true;
          break;
        }
        *figures[i] = value;
      }
      steps[i] *= better ? 1.5 : 0.5;
    }
    if (before - loss < 1e-5 && *std::max_element(steps.begin(), steps.end()) < 1e-3) break;
  }
}

// The share of the tiles' rate that remains if rows are aligned to only so many bytes.
void FitAlignments(MeasuredProducts& model, const std::vector<ProductTime>& points) {
  std::map<int64_t, std::vector<double>> shares;
  for (const ProductTime& p : points) {
    const int64_t bytes = Alignment(p, model.element_size);
    if (bytes >= 16) continue;
    const double alone = model.Seconds(p.kernel, p.dims) - model.kernel_s;
    shares[bytes].push_back(std::min(1.0, alone / std::max(p.seconds - model.kernel_s, 1e-9)));
  }
  for (const auto& [bytes, all] : shares) model.alignments[bytes] = std::max(Quantile(all, 0.5), 1e-3);
}

std::vector<ProductTime> Thinned(const std::vector<ProductTime>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<ProductTime> some;
  for (size_t i = 0; i < kMostPoints; ++i) some.push_back(points[i * points.size() / kMostPoints]);
  return some;
}

// Relative errors of predictions of `left_out` from the grid's points, with the law or with rates alone. Sorted.
std::vector<double> Errors(const std::vector<ProductTime>& grid, const std::vector<ProductTime>& left_out,
                           const MeasuredProducts* law) {
  std::map<std::string, profile::Kernel> kernels;
  for (const ProductTime& p : grid) {
    profile::Kernel& kernel = kernels[p.kernel];
    kernel.set_name(p.kernel);
    profile::Point& point = *kernel.add_points();
    for (const int64_t d : p.dims) point.add_dims(d);
    point.set_flops(FlopsOf(p)), point.set_seconds(p.seconds);
  }
  std::map<std::string, KernelTable> tables;
  for (const auto& [name, kernel] : kernels) {
    KernelTable::Law of = nullptr;
    if (law != nullptr) of = [law, n = name](const std::array<int64_t, 3>& dims) { return law->Seconds(n, dims); };
    tables.emplace(name, KernelTable(kernel, KernelTable::Between::kTimes, of));
  }
  std::vector<double> errors;
  for (const ProductTime& p : left_out) {
    const auto table = tables.find(p.kernel);
    if (table == tables.end()) continue;
    const double predicted = table->second.At(p.dims, {Flops(FlopsOf(p)), Bytes(0), Bytes(0)}).seconds;
    errors.push_back(std::abs(predicted / p.seconds - 1));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

}  // namespace

profile::Products FitProducts(const std::string& dtype, const std::vector<ProductTime>& grid,
                              const std::vector<ProductTime>& between, int64_t multiprocessors) {
  const int64_t element_size = dtype == "bf16" || dtype == "f16" ? 2 : 4;
  std::vector<ProductTime> fitted, left_out, unaligned;
  for (size_t i = 0; i < between.size(); ++i) {
    const bool aligned = Alignment(between[i], element_size) == 16;
    (!aligned ? unaligned : i % 3 == 2 ? left_out : fitted).push_back(between[i]);
  }
  for (const ProductTime& p : Thinned(grid)) {
    if (Alignment(p, element_size) == 16) fitted.push_back(p);
  }
  if (fitted.empty()) fitted = grid;
  MeasuredProducts model = Beginning(fitted, multiprocessors, element_size);
  Search(model, fitted);
  FitAlignments(model, unaligned);

  profile::Products products = model.ToProfile();
  products.set_dtype(dtype);
  std::vector<double> tiles = Errors(grid, left_out, &model), rates = Errors(grid, left_out, nullptr);
  if (tiles.empty()) return products;
  products.set_used(Quantile(tiles, 0.5) <= Quantile(rates, 0.5));
  const std::vector<double>& errors = products.used() ? tiles : rates;
  products.set_left_out(static_cast<int64_t>(errors.size()));
  products.set_median_error(Quantile(errors, 0.5)), products.set_high_error(Quantile(errors, 0.9)),
      products.set_worst_error(errors.back());
  return products;
}

}  // namespace twofold::calibrate
