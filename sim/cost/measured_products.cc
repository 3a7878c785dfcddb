#include "sim/cost/measured_products.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold {

namespace {

// "nt" of matmul_nt: whether a and b are transposed.
std::string_view LayoutOf(std::string_view kernel) {
  if (kernel == "matmul_gelu") return "nt";  // the layout in which layers call it
  if (kernel == "matmul_gelu_slope") return "nn";
  const std::string_view prefix = "matmul_";
  if (!kernel.starts_with(prefix)) return "";
  const std::string_view layout = kernel.substr(prefix.size());
  return layout == "nn" || layout == "nt" || layout == "tn" || layout == "tt" ? layout : "";
}

}  // namespace

bool IsProduct(std::string_view kernel) { return !LayoutOf(kernel).empty(); }

int64_t AlignmentOf(std::string_view product, const std::array<int64_t, 3>& dims, int64_t element_size) {
  const auto [m, n, k] = dims;
  const std::string_view layout = LayoutOf(product);
  TWOFOLD_CHECK(!layout.empty(), "a product's name says how its operands lie");
  return RowAlignment(layout[0] == 't' ? m : k, layout[1] == 't' ? k : n, element_size);
}

double MeasuredProducts::Seconds(std::string_view kernel, const std::array<int64_t, 3>& dims) const {
  const auto [m, n, k] = dims;
  const ProductShape product{1, m, n, k};
  const auto aligned = alignments.find(AlignmentOf(kernel, dims, element_size));
  const double efficiency = aligned == alignments.end() ? 1 : aligned->second;
  const double bytes = static_cast<double>((m * k + k * n + m * n) * element_size);
  return std::max({tiles.Seconds(product, efficiency, bytes_per_second, element_size),
                   product.flops() / flops_per_second, bytes / bytes_per_second}) +
         kernel_s;
}

MeasuredProducts MeasuredProducts::From(const profile::Products& p, int64_t multiprocessors) {
  MeasuredProducts products{.tiles = {.tiles = {},
                                      .multiprocessors = multiprocessors,
                                      .tile_depth = p.tile_depth(),
                                      .most_splits = p.most_splits()},
                            .bytes_per_second = p.bytes_per_second(),
                            .kernel_s = p.kernel_s(),
                            .flops_per_second = p.flops_per_second(),
                            .element_size = p.dtype() == "bf16" || p.dtype() == "f16" ? 2 : 4,
                            .alignments = {}};
  for (const profile::Products::Tile& t : p.tiles())
    products.tiles.tiles.push_back({t.rows(), t.columns(), t.flops_per_second()});
  for (const profile::Products::Alignment& a : p.alignments()) products.alignments[a.bytes()] = a.efficiency();
  return products;
}

profile::Products MeasuredProducts::ToProfile() const {
  profile::Products p;
  for (const TiledProducts::Tile& t : tiles.tiles) {
    profile::Products::Tile& tile = *p.add_tiles();
    tile.set_rows(t.rows), tile.set_columns(t.columns), tile.set_flops_per_second(t.efficiency);
  }
  p.set_tile_depth(tiles.tile_depth), p.set_most_splits(tiles.most_splits);
  p.set_bytes_per_second(bytes_per_second), p.set_kernel_s(kernel_s), p.set_flops_per_second(flops_per_second);
  for (const auto& [bytes, efficiency] : alignments) {
    profile::Products::Alignment& a = *p.add_alignments();
    a.set_bytes(bytes), a.set_efficiency(efficiency);
  }
  return p;
}

}  // namespace twofold
