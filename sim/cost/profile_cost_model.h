// What operations take on a machine that `twofold calibrate` has measured: seconds(kernel, dims) * factor(kernel).
//
// Assumes: a kernel's time alone depends on its dimensions and the bytes it touches; in training it takes a factor of that,
// the same at all sizes (what the operations before it leave in the caches, and what the other ranks do meanwhile).
// Ignores: what else runs on the machine while it is predicted (what did while it was calibrated widens the interval: load.h), and
// that a factor may depend on sizes.
// Calibrated from: the profile's points, the median of several rounds each; low and high are their 10th and 90th
// percentile, noise of one kernel and independent of the next one's. Factors are those of the profile's training jobs with
// the same number of ranks, or the next smaller one; a kernel that no job had takes the factor of whole jobs. common() is the
// jobs' own error: how far step times lay off when each job was predicted by the others; and the load of that time. It holds the
// noise of the jobs' kernels, which have no interval of their own then. Without training jobs factors are 1. An estimate outside the
// measured sizes, or of a kernel that the profile lacks, is marked extrapolated and its interval is widened by kExtrapolationSlack
// either way.
//
// A GPU's kernels are interpolated as kernel_table.h says of them, products by the tiles that were fitted to them (measured_products.h)
// where those did better on products that were left out; their interval is then as wide as what they were off there. Each says what the
// host takes to launch it and to allocate a result.
//
// A kernel that the profile lacks costs, in this order: for a product with a GELU, the two by themselves; another product's rate
// (for a product); what the kernel costs in another element type, in proportion to the bytes (products and attention: at equal flops
// per second); what its bytes cost at the median rate of the profile's streaming kernels (and its flops at the profile's peak, where it
// counts them).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/device/cost_model.h"
#include "core/proto/profile.pb.h"
#include "sim/cost/kernel_table.h"

namespace twofold {

// Remembers every answer. To be used from one thread at a time.
class ProfileCostModel : public CostModel {
 public:
  static constexpr double kExtrapolationSlack = 1.5;

  // `profile` is as ReadProfile gives it: one kernel or more, each with points. `training`: one of its, or null for
  // kernels alone. `tf32`: products of f32 are those that the profile has as tf32, if it does.
  explicit ProfileCostModel(const profile::Profile& profile, const profile::Training* training = nullptr, bool tf32 = false);

  Estimate Time(const ops::Op& op) override;
  bool independent() const override { return true; }
  Range common() const override { return common_; }
  Estimate Time(const ops::KernelKey& key, const ops::Cost& cost);

  // One line for a report's notes: where the figures come from.
  std::string Describe() const { return description_; }

 private:
  // Kernel names are literals, so their addresses tell them apart; two copies of one name cost an entry more.
  struct CacheKey {
    const char* name;
    DType dtype;
    std::array<int64_t, 3> dims;
    double flops;
    int64_t bytes;
    friend bool operator==(const CacheKey&, const CacheKey&) = default;
  };
  struct CacheHash {
    size_t operator()(const CacheKey& key) const;
  };
  struct Table {
    KernelTable table;
    double error = 0;                  // of products between measured ones: 90th percentile
    std::optional<Seconds> launch;
  };
  struct Found {
    const Table* table;  // null: the profile has nothing like it
    bool same;                 // the very kernel, in the very element type
  };

  Found Find(std::string_view name, DType dtype) const;
  const Table* Product(std::string_view dtype) const;
  std::string Describe(const profile::Profile& profile) const;
  Estimate Compute(const ops::KernelKey& key, const ops::Cost& cost) const;
  Estimate Alone(const ops::KernelKey& key, const ops::Cost& cost) const;
  Estimate FromBytes(const ops::KernelKey& key, const ops::Cost& cost) const;

  std::map<std::pair<std::string, std::string>, Table, std::less<>> tables_;  // by name, element type
  double streaming_rate_ = 0, least_seconds_ = 0, peak_flops_ = 0;
  std::map<std::string, double, std::less<>> factors_;
  double other_factor_ = 1;
  bool tf32_ = false;
  std::optional<Seconds> launch_;  // of a kernel that was not measured
  Range common_;
  std::string description_;
  absl::flat_hash_map<CacheKey, Estimate, CacheHash> cache_;
};

// The training jobs whose figures hold for `ranks` ranks: as many, or the next smaller number, else the least. Null: none.
const profile::Training* TrainingFor(const profile::Profile& profile, int64_t ranks);

}  // namespace twofold
