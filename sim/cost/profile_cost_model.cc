#include "sim/cost/profile_cost_model.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/cost/load.h"
#include "sim/cost/measured_products.h"
#include "sim/cost/passes.h"

namespace twofold {

namespace {

// The law of a GPU's products of this type; null if interpolating rates alone is more accurate.
KernelTable::Law LawOf(const profile::Kernel& kernel, const profile::Products* fitted, int64_t multiprocessors) {
  if (!IsProduct(kernel.name()) || fitted == nullptr || !fitted->used()) return nullptr;
  return [name = kernel.name(), products = MeasuredProducts::From(*fitted, multiprocessors)](
             const std::array<int64_t, 3>& dims) { return products.Seconds(name, dims); };
}

const profile::Products* ProductsOf(const profile::Gpu& gpu, std::string_view dtype) {
  for (const profile::Products& p : gpu.products()) {
    if (p.dtype() == dtype) return &p;
  }
  return nullptr;
}

}  // namespace

ProfileCostModel::ProfileCostModel(const profile::Profile& profile, const profile::Training* training, bool tf32)
    : peak_flops_(profile.peak_flops_per_second()), tf32_(tf32) {
  TWOFOLD_CHECK(profile.kernels_size() > 0, "a profile has kernels");
  const profile::Gpu& gpu = profile.gpu();
  const auto between = profile.has_gpu() ? KernelTable::Between::kTimes : KernelTable::Between::kRates;
  const Seconds allocation(gpu.allocation().seconds());
  if (gpu.has_launch()) launch_ = Seconds(gpu.launch().seconds()) + allocation;
  std::vector<double> rates;
  for (const profile::Kernel& kernel : profile.kernels()) {
    const profile::Products* products = ProductsOf(gpu, kernel.dtype());
    Table made{.table = KernelTable(kernel, between, LawOf(kernel, products, gpu.multiprocessors())),
               .launch = launch_};
    if (IsProduct(kernel.name()) && products != nullptr) made.error = products->high_error();
    if (kernel.has_launch_s()) made.launch = Seconds(kernel.launch_s()) + allocation;
    if (!CountsFlops(kernel.name())) rates.push_back(made.table.LargestRate());
    least_seconds_ =
        tables_.empty() ? made.table.least_seconds() : std::min(least_seconds_, made.table.least_seconds());
    tables_.emplace(std::pair(kernel.name(), kernel.dtype()), std::move(made));
  }
  std::sort(rates.begin(), rates.end());
  if (!rates.empty()) streaming_rate_ = rates[rates.size() / 2];
  description_ = Describe(profile);
  common_ = Widened(common_, profile.load());
  if (training == nullptr) return;
  factors_ = TrainingFactors(*training);
  other_factor_ = training->factor();
  common_ = Widened({training->low(), training->high()}, profile.load());
}

std::string ProfileCostModel::Describe(const profile::Profile& profile) const {
  const profile::Gpu& gpu = profile.gpu();
  const std::string machine = profile.has_gpu() ? absl::StrCat(gpu.multiprocessors(), " multiprocessors")
                                                : absl::StrCat(profile.cores(), " cores");
  std::string text = absl::StrCat("kernel times: profile \"", profile.name(), "\" (", profile.source(), "; ",
                                  profile.processor(), ", ", machine, "; ", profile.kernels_size(), " kernels)");
  for (const profile::Products& p : gpu.products()) {
    absl::StrAppendFormat(&text,
                          "; %s matrix products of sizes that were not measured: %s (error on %d held-out products: "
                          "median %.1f %%, worst %.1f %%)",
                          p.dtype(), p.used() ? "fitted tiles" : "interpolated rates", p.left_out(),
                          100 * p.median_error(), 100 * p.worst_error());
  }
  return text + DescribeLoad(profile);
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

Estimate ProfileCostModel::Time(const ops::Op& op) {
  const ops::KernelKey key = ops::Key(op);
  const auto* product = std::get_if<ops::MatMul>(&op.any());
  if (product != nullptr && product->epilogue != ops::MatMul::kNone && !Find(key.name, key.dtype).same) {
    const TwoPasses passes = *Unfused(op);
    const Estimate a = Time(passes.main), b = Time(passes.joined);
    Estimate both{a.seconds + b.seconds, a.low + b.low, a.high + b.high, a.extrapolated || b.extrapolated};
    both.source = SourceOfSum(a, b);
    if (a.launch && b.launch) both.launch = *a.launch + *b.launch;
    return both;
  }
  if (product != nullptr && product->fp8() && !Find(key.name, key.dtype).same) return TimeOfWidened(*product);
  return Time(key, ops::CostOf(op));
}

// In the place of an FP8 product without an epilogue.
Estimate ProfileCostModel::TimeOfWidened(const ops::MatMul& product) {
  constexpr std::string_view kNames[] = {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt"};
  const ops::KernelKey key{kNames[product.transpose_a * 2 + product.transpose_b], DType::kBF16, ops::Key(product).dims};
  ops::Cost cost = ops::CostOf(product);
  cost.read += product.a.bytes() + product.b.bytes();  // 2 bytes an element
  Estimate e = Time(key, cost);
  if (!e.extrapolated) e.low = e.low * (1 / kExtrapolationSlack), e.high = e.high * kExtrapolationSlack;
  e.extrapolated = true, e.source = Source::kExtrapolated;
  return e;
}

Estimate ProfileCostModel::Time(const ops::KernelKey& key, const ops::Cost& cost) {
  const CacheKey cache_key{key.name.data(), key.dtype, key.dims, cost.flops.value(), cost.bytes().value()};
  const auto found = cache_.find(cache_key);
  if (found != cache_.end()) [[likely]]
    return found->second;
  return cache_.emplace(cache_key, Compute(key, cost)).first->second;
}

const ProfileCostModel::Table* ProfileCostModel::Product(std::string_view dtype) const {
  for (const auto& [id, table] : tables_) {
    if (IsProduct(id.first) && !id.first.starts_with("matmul_gelu") && (dtype.empty() || id.second == dtype))
      return &table;
  }
  return nullptr;
}

ProfileCostModel::Found ProfileCostModel::Find(std::string_view name, DType dtype) const {
  const std::string kernel(name);
  const auto get = [&](std::string_view type) -> const Table* {
    const auto it = tables_.find(std::pair(kernel, std::string(type)));
    return it == tables_.end() ? nullptr : &it->second;
  };
  if (tf32_ && dtype == DType::kF32) {
    if (const Table* table = get("tf32")) return {table, true};
  }
  if (const Table* table = get(DTypeName(dtype))) return {table, true};
  const bool product = IsProduct(name);
  if (product) {
    if (const Table* table = Product(DTypeName(dtype))) return {table, false};
  }
  for (const DType other : {DType::kF32, DType::kBF16, DType::kF64, DType::kF16}) {
    if (const Table* table = get(DTypeName(other))) return {table, false};
  }
  return {product ? Product("") : nullptr, false};
}

Estimate ProfileCostModel::Compute(const ops::KernelKey& key, const ops::Cost& cost) const {
  Estimate e = Alone(key, cost);
  const std::optional<double> factor = factors_.Of(key.name, e.seconds);
  if (!factor) {
    for (Seconds* s : {&e.seconds, &e.low, &e.high}) *s = *s * other_factor_;
    return e;
  }
  const double slack = e.extrapolated ? kExtrapolationSlack : 1;
  e.seconds = e.seconds * *factor;
  e.low = e.seconds * (1 / slack), e.high = e.seconds * slack;
  return e;
}

Estimate ProfileCostModel::Alone(const ops::KernelKey& key, const ops::Cost& cost) const {
  const Found found = Find(key.name, key.dtype);
  if (found.table == nullptr) return FromBytes(key, cost);
  const KernelTable::Result r = found.table->table.At(key.dims, cost);
  const bool extrapolated = !found.same || !r.inside;
  const double slack = (extrapolated ? kExtrapolationSlack : 1) * (1 + found.table->error);
  const Source source = extrapolated ? Source::kExtrapolated : r.measured ? Source::kCalibrated : Source::kTable;
  return {Seconds(r.seconds), Seconds(r.low / slack), Seconds(r.high * slack),
          extrapolated,       found.table->launch,    source};
}

Estimate ProfileCostModel::FromBytes(const ops::KernelKey& key, const ops::Cost& cost) const {
  double seconds = least_seconds_;
  if (streaming_rate_ > 0) {
    seconds = std::max(seconds, static_cast<double>(cost.bytes().value()) / streaming_rate_);
  }
  if (CountsFlops(key.name) && peak_flops_ > 0) seconds = std::max(seconds, cost.flops.value() / peak_flops_);
  return {Seconds(seconds),
          Seconds(seconds / kExtrapolationSlack),
          Seconds(seconds * kExtrapolationSlack),
          true,
          launch_,
          Source::kExtrapolated};
}

const profile::Training* TrainingFor(const profile::Profile& profile, int64_t ranks) {
  const profile::Training* best = nullptr;
  for (const profile::Training& t : profile.training()) {
    if (best == nullptr || t.ranks() <= ranks) best = &t;  // in ascending order of ranks
  }
  return best;
}

}  // namespace twofold
