#include "experiments/program/calibrate/fit_factors.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "experiments/program/calibrate/samples.h"
#include "sim/cost/laws/attention_law.h"
#include "sim/cost/laws/product_law.h"

namespace twofold::calibrate {
namespace {

// The sizes of these columns, in their order, and the columns efficiency and peak_tflops.
struct Shares {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<double> flops_per_second;
};
absl::StatusOr<Shares> ReadShares(const LawTable& table, std::initializer_list<std::string_view> names) {
  Shares shares;
  for (const std::string_view name : names) {
    auto column = table.Sizes(name);
    if (!column.ok()) return column.status();
    shares.sizes.push_back(*std::move(column));
  }
  const auto efficiency = table.Numbers("efficiency"), peak = table.Numbers("peak_tflops");
  if (!efficiency.ok()) return efficiency.status();
  if (!peak.ok()) return peak.status();
  for (size_t i = 0; i < table.rows(); ++i) {
    const double rate = (*efficiency)[i] * (*peak)[i] * 1e12;
    if (!(rate > 0))
      return InvalidArgument(table.path(), ": row ", i + 1, ": efficiency and peak_tflops must be greater than 0");
    shares.flops_per_second.push_back(rate);
  }
  return shares;
}

const cluster::ProductLaw* ProductsOf(const cluster::KernelLaws& laws) { return ProductLawOf(laws, "bf16"); }

absl::Status NoLaw(const LawTable& table, std::string_view family) {
  return InvalidArgument(table.path(), ": needs a device with a law of ", family,
                         "; calibrate that first, from a table of its times");
}

// The median for `name`, over that for `base`.
absl::StatusOr<double> Relative(const LawTable& table, std::map<std::string, std::vector<double>>& ratios,
                                const std::string& name, const std::string& base) {
  for (const std::string& one : {name, base}) {
    if (ratios[one].empty()) return InvalidArgument(table.path(), ": has no rows of ", one);
  }
  const double share = Quantile(ratios[name], 0.5) / Quantile(ratios[base], 0.5);
  return std::round(1000 * share) / 1000;
}

}  // namespace

absl::Status FitLayouts(const LawTable& table, cluster::KernelLaws& laws) {
  const cluster::ProductLaw* law = ProductsOf(laws);
  if (law == nullptr) return NoLaw(table, "bf16 products");
  const auto rows = ReadShares(table, {"m", "n", "k"});
  if (!rows.ok()) return rows.status();
  std::map<std::string, std::vector<double>> ratios;
  for (size_t i = 0; i < table.rows(); ++i) {
    const ProductShape shape{1, rows->sizes[0][i], rows->sizes[1][i], rows->sizes[2][i]};
    const double element = table.Text(i, "out_dtype") == "fp32" ? 4 : 2;
    const double result = table.Text(i, "accumulate") == "True" ? 2 * element : element;
    const double predicted = ProductSeconds(laws, *law, {.shape = shape, .result_bytes = result});
    ratios[std::string(table.Text(i, "layout"))].push_back(shape.flops() / rows->flops_per_second[i] / predicted);
  }
  const auto nn = Relative(table, ratios, "NN", "TN"), nt = Relative(table, ratios, "NT", "TN");
  if (!nn.ok()) return nn.status();
  if (!nt.ok()) return nt.status();
  laws.set_nn_factor(*nn), laws.set_nt_factor(*nt);
  return absl::OkStatus();
}

absl::Status FitGrouped(const LawTable& table, cluster::KernelLaws& laws) {
  const cluster::ProductLaw* law = ProductsOf(laws);
  if (law == nullptr) return NoLaw(table, "bf16 products");
  const auto rows = ReadShares(table, {"ng", "M", "N", "K"});
  if (!rows.ok()) return rows.status();
  std::map<std::string, std::vector<double>> ratios;
  for (size_t i = 0; i < table.rows(); ++i) {
    const int64_t experts = rows->sizes[0][i], m = rows->sizes[1][i], n = rows->sizes[2][i], k = rows->sizes[3][i];
    const std::string stage(table.Text(i, "stage"));
    ProductCall call{.shape = {experts, m, n, k}};
    if (stage == "bwd_grad_act") call.shape = {experts, m, k, n};
    if (stage == "bwd_grad_w") call = {.shape = {experts, n, k, m}, .result_bytes = 8};
    ratios[stage].push_back(call.shape.flops() / rows->flops_per_second[i] / ProductSeconds(laws, *law, call));
  }
  // The first factor is relative to the law itself: the kernel, not the layout, differs.
  for (const char* stage : {"fwd", "bwd_grad_act", "bwd_grad_w"}) {
    if (ratios[stage].empty()) return InvalidArgument(table.path(), ": has no rows of stage ", stage);
  }
  const auto factor = [&ratios](const char* stage) { return std::round(1000 * Quantile(ratios[stage], 0.5)) / 1000; };
  laws.set_grouped_factor(factor("fwd")), laws.set_grouped_nn_factor(factor("bwd_grad_act")),
      laws.set_grouped_nt_factor(factor("bwd_grad_w"));
  return absl::OkStatus();
}

absl::Status FitBackward(const LawTable& table, cluster::KernelLaws& laws) {
  const cluster::AttentionLaw* law = AttentionLawOf(laws);
  if (law == nullptr) return NoLaw(table, "attention");
  const auto rows = ReadShares(table, {"batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim"});
  if (!rows.ok()) return rows.status();
  std::map<std::string, std::vector<double>> ratios;
  laws.set_attention_backward_efficiency(1);
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto at = [&](size_t column) { return rows->sizes[column][i]; };
    if (at(4) != at(5)) continue;  // the law has one head width
    const std::string pass(table.Text(i, "pass"));
    const AttentionCall call{at(0), at(1), at(1), at(2), at(3), at(4), true, pass == "backward"};
    const double scores = static_cast<double>(at(0) * at(2)) * static_cast<double>(at(1)) * static_cast<double>(at(1));
    const double flops = (call.backward ? 10 : 4) * scores * static_cast<double>(at(4));
    ratios[pass].push_back(flops / rows->flops_per_second[i] / AttentionSeconds(laws, *law, call));
  }
  const auto backward = Relative(table, ratios, "backward", "forward");
  if (!backward.ok()) return backward.status();
  laws.set_attention_backward_efficiency(std::round(1000 / *backward) / 1000);
  return absl::OkStatus();
}

}  // namespace twofold::calibrate
