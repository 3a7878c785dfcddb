#include "sim/cost/laws/attention_law.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/laws/gpu_tiles.h"
#include "sim/cost/laws/product_shape.h"

namespace twofold {
namespace {

constexpr int64_t kWidth = 128;  // head width to which `tflops` belongs

// Linear in the logarithm of the width between listed widths; the nearest beyond them.
double WidthFactor(const cluster::AttentionLaw& law, int64_t head_dim) {
  double below = 0, below_factor = 1;
  for (const cluster::AttentionLaw::Width& w : law.widths()) {
    if (w.head_dim() == head_dim) return w.factor();
    const auto width = static_cast<double>(w.head_dim());
    if (w.head_dim() > head_dim) {
      if (below == 0) return w.factor();
      const double at = std::log(static_cast<double>(head_dim) / below) / std::log(width / below);
      return below_factor + at * (w.factor() - below_factor);
    }
    below = width, below_factor = w.factor();
  }
  return below_factor;
}

struct Steps {
  double all, longest;  // of the tiles of one head
};
Steps StepsOf(const AttentionCall& call, int64_t tiles, int64_t rows, int64_t columns) {
  const int64_t most = CeilDiv(call.keys, columns);
  if (!call.causal) return {static_cast<double>(tiles * most), static_cast<double>(most)};
  int64_t all = 0;
  for (int64_t i = 1; i <= tiles; ++i) all += std::min(most, CeilDiv(i * rows, columns));
  return {static_cast<double>(all), static_cast<double>(most)};
}

}  // namespace

double AttentionSeconds(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law, const AttentionCall& call) {
  const auto multiprocessors = static_cast<double>(laws.multiprocessors());
  const double heads = static_cast<double>(call.batch * call.heads), width = static_cast<double>(call.head_dim);
  const int64_t rows = call.backward ? law.tile_keys() : law.tile_rows(),
                columns = call.backward ? law.tile_rows() : law.tile_keys();
  const int64_t rows_to_cut = call.backward ? call.keys : call.queries;
  AttentionCall cut = call;
  if (call.backward) cut.keys = call.queries;
  double step = WidthFactor(law, call.head_dim) * 4 * static_cast<double>(rows * columns) * width * multiprocessors /
                (law.tflops() * call.rate * 1e6);
  if (call.backward) step *= 2.5 / laws.attention_backward_efficiency();
  const int64_t tiles_of_head = CeilDiv(rows_to_cut, rows);
  const Steps steps = StepsOf(cut, tiles_of_head, rows, columns);
  const double tiles = heads * static_cast<double>(tiles_of_head);
  const double even = (heads * steps.all * step + tiles * law.tile_us()) / multiprocessors;
  const double longest = steps.longest * step + law.tile_us();
  const double full = tiles / multiprocessors;
  double compute = longest;
  if (full > 1) {
    const double uneven = law.evenness() * (std::ceil(full) / full - 1) * even;
    compute = std::max(longest, even + uneven + law.tail() * std::min(1.0, full - 1) * longest);
  }
  const double rows_of_q = static_cast<double>(call.batch * call.queries),
               rows_of_k = static_cast<double>(call.batch * call.keys);
  const double keys_bytes = 2 * call.element_bytes * rows_of_k * static_cast<double>(call.kv_heads) * width;
  const double bytes = 2 * call.element_bytes * rows_of_q * static_cast<double>(call.heads) * width + keys_bytes;
  const double memory = (call.backward ? 2 : 1) * bytes / (law.memory_tbytes_per_second() * 1e6);
  const double larger = std::max(compute, memory), smaller = std::min(compute, memory), q = law.sharpness();
  double us = larger * std::pow(1 + std::pow(smaller / larger, q), 1 / q) + law.call_us();
  if (call.cached) us += keys_bytes / (law.keys_tbytes_per_second() * 1e6);
  return us * 1e-6;
}

const cluster::AttentionLaw* AttentionLawOf(const cluster::KernelLaws& laws) {
  for (const cluster::AttentionLaw& law : laws.attention()) {
    if (laws.has_column() && law.column() == laws.column()) return &law;
  }
  return laws.attention().empty() ? nullptr : &laws.attention(0);
}

double AttentionError(const cluster::AttentionLaw& law, int64_t queries) {
  double error = law.residuals().empty() ? kUnknownLawError : law.residuals(0).p90();
  for (const cluster::Residuals& r : law.residuals()) {
    if (static_cast<double>(queries) >= r.from()) error = r.p90();
  }
  return error;
}

}  // namespace twofold
