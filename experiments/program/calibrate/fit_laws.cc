#include "experiments/program/calibrate/fit_laws.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "core/base/strings.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/calibrate/search.h"

namespace twofold::calibrate {
namespace {

constexpr int kMostLawRounds = 60;
constexpr size_t kLeastOfRegion = 10;
constexpr int64_t kLarge = 512;  // dimensions and sequences of training
constexpr double kSmallWeight = 0.25;
constexpr double kBoost = 1.12;  // the clock's maximum over the one that the data sheet's peak assumes

uint64_t HashOf(const ProductShape& p) { return Fnv(StrCat(p.m, ",", p.n, ",", p.k)); }
uint64_t HashOf(const AttentionCall& c) {
  return Fnv(StrCat(c.batch, ",", c.queries, ",", c.heads, ",", c.kv_heads, ",", c.head_dim));
}
uint64_t HashOf(const MeasuredProduct& row) { return HashOf(row.shape); }
uint64_t HashOf(const MeasuredAttention& row) { return HashOf(row.call); }

bool Large(const MeasuredProduct& row) { return std::min({row.shape.m, row.shape.n, row.shape.k}) >= kLarge; }
bool Large(const MeasuredAttention& row) { return row.call.queries >= kLarge; }

double Predicted(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const MeasuredProduct& row) {
  return ProductSeconds(laws, law, {.shape = row.shape}) * 1e6;
}
double Predicted(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law, const MeasuredAttention& row) {
  return AttentionSeconds(laws, law, row.call) * 1e6;
}

template <class Row>
std::vector<Row> Fitted(const std::vector<Row>& rows) {
  std::vector<Row> fitted;
  for (const Row& row : rows) {
    if (HashOf(row) % 5 != 0) fitted.push_back(row);
  }
  std::sort(fitted.begin(), fitted.end(), [](const Row& a, const Row& b) { return HashOf(a) < HashOf(b); });
  fitted.resize(std::min(fitted.size(), kMostRows));
  return fitted;
}

template <class Law, class Row>
double LossOf(const cluster::KernelLaws& laws, const Law& law, const std::vector<Row>& rows) {
  double sum = 0, weights = 0;
  for (const Row& row : rows) {
    const double weight = Large(row) ? 1 : kSmallWeight;
    sum += weight * std::min(kMostLawError, std::abs(std::log(Predicted(laws, law, row) / row.us)));
    weights += weight;
  }
  return sum / weights;
}

template <class Law>
void Round(Law& law) {
  const google::protobuf::Descriptor& type = *law.GetDescriptor();
  const google::protobuf::Reflection& reflect = *law.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) continue;
    if (reflect.HasField(law, &field)) reflect.SetDouble(&law, &field, Rounded(reflect.GetDouble(law, &field)));
  }
}

template <class Law>
Constant Field(Law& law, const char* name, double value, double low, double high) {
  const google::protobuf::FieldDescriptor* field = law.GetDescriptor()->FindFieldByName(name);
  return {[&law, field](double v) { law.GetReflection()->SetDouble(&law, field, v); }, value, low, high};
}

template <class Law, class Row, class Region>
std::vector<cluster::Residuals> ByRegion(const cluster::KernelLaws& laws, const Law& law, const std::vector<Row>& rows,
                                         const Region& region) {
  std::map<double, std::vector<double>> errors;
  for (const Row& row : rows) {
    if (HashOf(row) % 5 == 0) errors[region(row)].push_back(std::abs(Predicted(laws, law, row) / row.us - 1));
  }
  std::vector<cluster::Residuals> all;
  for (const auto& [from, of] : errors) {
    if (of.size() < kLeastOfRegion && errors.size() > 1) continue;  // the region before it holds
    cluster::Residuals r;
    r.set_from(from), r.set_count(static_cast<int64_t>(of.size()));
    r.set_median(Rounded(Quantile(of, 0.5))), r.set_p90(Rounded(Quantile(of, 0.9)));
    all.push_back(r);
  }
  return all;
}

template <class Law, class Row>
cluster::Residuals OfLarge(const cluster::KernelLaws& laws, const Law& law, const std::vector<Row>& rows) {
  std::vector<Row> large;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(large), [](const Row& row) { return Large(row); });
  const std::vector<cluster::Residuals> all = ByRegion(laws, law, large, [](const Row&) { return 0.0; });
  return all.empty() ? cluster::Residuals() : all[0];
}

}  // namespace

bool IsLeftOut(const ProductShape& shape) { return HashOf(shape) % 5 == 0; }
bool IsLeftOut(const AttentionCall& call) { return HashOf(call) % 5 == 0; }

cluster::ProductLaw FitProductLaw(const cluster::Device& device, const std::string& dtype,
                                  const std::vector<MeasuredProduct>& rows) {
  cluster::ProductLaw law;
  law.set_dtype(dtype);
  const bool eight = dtype != "bf16";
  const double peak = device.bf16_flops_per_second() * 1e-12 * (eight ? 2 : 1),
               memory = device.memory_bytes_per_second() * 1e-12;
  const auto field = [&law](const char* name, double value, double low, double high) {
    return Field(law, name, value, low, high);
  };
  std::vector<Constant> constants = {field("tflops", peak, 0.5 * peak, kBoost * peak),
                                     field("load_gbytes_per_second", 60, 5, 400),
                                     field("tile_us", 0.7, 0.05, 4),
                                     field("store_ns", 20, 1, 200),
                                     field("call_us", 2.5, 0.5, 25),
                                     field("memory_tbytes_per_second", 0.8 * memory, 0.3 * memory, memory),
                                     field("burst_tflops", 0.9 * peak, 0.5 * peak, kBoost * peak),
                                     field("lasting_share", 0.8, 0.3, 1),
                                     field("settling_us", 500, 10, 2e4),
                                     field("selectivity", 20, 3, 60),
                                     field("sharpness", 3, 1.5, 8),
                                     field("partial_tbytes_per_second", 0.9 * memory, 0.02, 20),
                                     field("evenness", 0.3, 0.01, 1)};
  if (eight) {
    constants.push_back(field("quantise_ns", 0.5, 0.001, 20));
    constants.push_back(field("quantise_tbytes_per_second", 3, 0.05, 100));
    constants.push_back(field("host_us", 4, 0.5, 400));
  }
  const std::vector<MeasuredProduct> fitted = Fitted(rows);
  Search(constants, kMostLawRounds, [&] { return LossOf(device.laws(), law, fitted); });
  Round(law);
  return law;
}

cluster::AttentionLaw FitAttentionLaw(const cluster::Device& device, const std::vector<MeasuredAttention>& rows) {
  const double peak = device.bf16_flops_per_second() * 1e-12, memory = device.memory_bytes_per_second() * 1e-12;
  const std::vector<MeasuredAttention> fitted = Fitted(rows);
  std::set<int64_t> widths;
  for (const MeasuredAttention& row : fitted) widths.insert(row.call.head_dim);
  cluster::AttentionLaw best;
  double best_loss = 0;
  for (const int64_t tile_rows : {64, 128, 192, 256}) {
    for (const int64_t tile_keys : {64, 128}) {
      cluster::AttentionLaw law;
      law.set_tile_rows(tile_rows), law.set_tile_keys(tile_keys);
      const auto field = [&law](const char* name, double value, double low, double high) {
        return Field(law, name, value, low, high);
      };
      std::vector<Constant> constants = {field("tflops", 0.8 * peak, 0.2 * peak, kBoost * peak),
                                         field("tile_us", 0.5, 0.01, 20),
                                         field("call_us", 5, 1, 40),
                                         field("memory_tbytes_per_second", 0.7 * memory, 0.1 * memory, memory),
                                         field("evenness", 0.5, 0.001, 1),
                                         field("tail", 0.1, 0.001, 2),
                                         field("sharpness", 2, 1.2, 8),
                                         field("keys_tbytes_per_second", 0.9 * memory, 0.05, 50)};
      for (const int64_t width : widths) {
        law.add_widths()->set_head_dim(width), law.mutable_widths()->rbegin()->set_factor(1);
        if (width == 128) continue;
        cluster::AttentionLaw::Width* const w = law.mutable_widths(law.widths_size() - 1);
        constants.push_back({[w](double v) { w->set_factor(v); }, 1, 0.5, 3});
      }
      Search(constants, kMostLawRounds, [&] { return LossOf(device.laws(), law, fitted); });
      const double loss = LossOf(device.laws(), law, fitted);
      if (best.has_tflops() && loss >= best_loss) continue;
      best = law, best_loss = loss;
    }
  }
  Round(best);
  for (cluster::AttentionLaw::Width& w : *best.mutable_widths()) w.set_factor(Rounded(w.factor()));
  return best;
}

std::vector<cluster::Residuals> ResidualsOf(const cluster::KernelLaws& laws, const cluster::ProductLaw& law,
                                            const std::vector<MeasuredProduct>& rows) {
  auto all = ByRegion(laws, law, rows, [](const MeasuredProduct& row) {
    return row.shape.flops() < 1e9 ? 0.0 : std::pow(10.0, std::floor(std::log10(row.shape.flops())));
  });
  for (cluster::Residuals& r : all) r.set_region("flops");
  return all;
}

std::vector<cluster::Residuals> ResidualsOf(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law,
                                            const std::vector<MeasuredAttention>& rows) {
  auto all = ByRegion(laws, law, rows, [](const MeasuredAttention& row) {
    const int64_t s = row.call.queries;
    return s < 128 ? 1.0 : s < 512 ? 128.0 : s < 2048 ? 512.0 : s < 8192 ? 2048.0 : 8192.0;
  });
  for (cluster::Residuals& r : all) r.set_region("sequence");
  return all;
}

cluster::Residuals LargeResiduals(const cluster::KernelLaws& laws, const cluster::ProductLaw& law,
                                  const std::vector<MeasuredProduct>& rows) {
  return OfLarge(laws, law, rows);
}
cluster::Residuals LargeResiduals(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law,
                                  const std::vector<MeasuredAttention>& rows) {
  return OfLarge(laws, law, rows);
}

}  // namespace twofold::calibrate
