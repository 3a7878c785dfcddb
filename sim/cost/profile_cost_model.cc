#include "sim/cost/profile_cost_model.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace twofold {

ProfileCostModel::ProfileCostModel(const profile::Profile& profile, const profile::Training* training)
    : peak_flops_(profile.peak_flops_per_second()) {
  TWOFOLD_CHECK(profile.kernels_size() > 0, "a profile has kernels");
  std::vector<double> rates;
  for (const profile::Kernel& kernel : profile.kernels()) {
    const KernelTable table(kernel);
    if (!CountsFlops(kernel.name())) rates.push_back(table.LargestRate());
    least_seconds_ = tables_.empty() ? table.least_seconds() : std::min(least_seconds_, table.least_seconds());
    tables_.emplace(std::pair(kernel.name(), kernel.dtype()), table);
  }
  std::sort(rates.begin(), rates.end());
  if (!rates.empty()) streaming_rate_ = rates[rates.size() / 2];
  description_ = absl::StrCat("kernel times: profile \"", profile.name(), "\" (", profile.source(), "; ",
                              profile.processor(), ", ", profile.cores(), " cores; ", profile.kernels_size(),
                              " kernels)");
  if (training == nullptr) return;
  for (const profile::KernelFactor& f : training->kernels()) factors_[f.kernel()] = f.factor();
  other_factor_ = training->factor();
  common_ = {training->low(), training->high()};
}

size_t ProfileCostModel::CacheHash::operator()(const CacheKey& key) const {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ull;
  const auto mix = [](uint64_t a, uint64_t b) { return (a ^ (a >> 29)) * kMultiplier + b; };
  // Two chains, so that the multiplications overlap.
  const uint64_t left = mix(mix(reinterpret_cast<uintptr_t>(key.name), static_cast<uint64_t>(key.dims[0])),
                            static_cast<uint64_t>(key.bytes));
  const uint64_t right = mix(mix(static_cast<uint64_t>(key.dims[1]), static_cast<uint64_t>(key.dims[2])),
                             std::bit_cast<uint64_t>(key.flops) + static_cast<uint64_t>(key.dtype));
  const uint64_t h = mix(left, right) * kMultiplier;
  return static_cast<size_t>(h ^ (h >> 32));
}

Estimate ProfileCostModel::Time(const ops::Op& op) { return Time(ops::Key(op), ops::CostOf(op)); }

Estimate ProfileCostModel::Time(const ops::KernelKey& key, const ops::Cost& cost) {
  const CacheKey cache_key{key.name.data(), key.dtype, key.dims, cost.flops.value(), cost.bytes().value()};
  const auto found = cache_.find(cache_key);
  if (found != cache_.end()) [[likely]] return found->second;
  return cache_.emplace(cache_key, Compute(key, cost)).first->second;
}

const KernelTable* ProfileCostModel::Product(std::string_view dtype) const {
  for (const auto& [id, table] : tables_) {
    if (id.first.starts_with("matmul_") && (dtype.empty() || id.second == dtype)) return &table;
  }
  return nullptr;
}

ProfileCostModel::Found ProfileCostModel::Find(std::string_view name, DType dtype) const {
  const std::string kernel(name);
  const auto get = [&](DType t) -> const KernelTable* {
    const auto it = tables_.find(std::pair(kernel, std::string(DTypeName(t))));
    return it == tables_.end() ? nullptr : &it->second;
  };
  if (const KernelTable* table = get(dtype)) return {table, true};
  const bool product = name.starts_with("matmul_");
  if (product) {
    if (const KernelTable* table = Product(DTypeName(dtype))) return {table, false};
  }
  for (const DType other : {DType::kF32, DType::kBF16, DType::kF64, DType::kF16}) {
    if (const KernelTable* table = get(other)) return {table, false};
  }
  return {product ? Product("") : nullptr, false};
}

Estimate ProfileCostModel::Compute(const ops::KernelKey& key, const ops::Cost& cost) const {
  const Estimate alone = Alone(key, cost);
  const auto factor = factors_.find(key.name);
  if (factor == factors_.end()) {
    return {alone.seconds * other_factor_, alone.low * other_factor_, alone.high * other_factor_, alone.extrapolated};
  }
  const Seconds seconds = alone.seconds * factor->second;
  const double slack = alone.extrapolated ? kExtrapolationSlack : 1;
  return {seconds, seconds * (1 / slack), seconds * slack, alone.extrapolated};
}

Estimate ProfileCostModel::Alone(const ops::KernelKey& key, const ops::Cost& cost) const {
  const Found found = Find(key.name, key.dtype);
  if (found.table == nullptr) return FromBytes(key, cost);
  const KernelTable::Result r = found.table->At(key.dims, cost);
  const bool extrapolated = !found.same || !r.inside;
  const double slack = extrapolated ? kExtrapolationSlack : 1;
  return {Seconds(r.seconds), Seconds(r.low / slack), Seconds(r.high * slack), extrapolated};
}

Estimate ProfileCostModel::FromBytes(const ops::KernelKey& key, const ops::Cost& cost) const {
  double seconds = least_seconds_;
  if (streaming_rate_ > 0) {
    seconds = std::max(seconds, static_cast<double>(cost.bytes().value()) / streaming_rate_);
  }
  if (CountsFlops(key.name) && peak_flops_ > 0) seconds = std::max(seconds, cost.flops.value() / peak_flops_);
  return {Seconds(seconds), Seconds(seconds / kExtrapolationSlack), Seconds(seconds * kExtrapolationSlack), true};
}

const profile::Training* TrainingFor(const profile::Profile& profile, int64_t ranks) {
  const profile::Training* best = nullptr;
  for (const profile::Training& t : profile.training()) {
    if (best == nullptr || t.ranks() <= ranks) best = &t;  // they ascend
  }
  return best;
}

}  // namespace twofold
