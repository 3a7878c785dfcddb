// The time of operations on a machine that `twofold calibrate` has measured: seconds(kernel, dims) * factor(kernel).
//
// Assumes: a kernel's time alone depends only on its dimensions and the bytes it touches. In training it is multiplied
// by a factor that depends on how long it takes alone (training_factors.h: the state in which earlier operations leave
// the caches, and the work of other ranks).
// Ignores: other load on the machine during the predicted run (load during calibration widens the interval: load.h).
// Calibrated from: the profile's points, each the median of several rounds; low and high are their 10th and 90th
// percentile, which is the noise of one kernel and independent of the next one's. Factors are those of the profile's
// training jobs with the same number of ranks, or the next smaller number; a kernel that no job had gets the factor of
// whole jobs. common() is the jobs' own error (how far off step times were when each job was predicted by the others),
// combined with the load during calibration. It includes the noise of the jobs' kernels, so those have no interval of
// their own. Without training jobs, factors are 1. An estimate outside the measured sizes, or for a kernel that the
// profile lacks, is marked extrapolated, and its interval is widened by kExtrapolationSlack in both directions.
//
// A GPU's kernels are interpolated as described in kernel_table.h. Products use the fitted tiles (measured_products.h)
// if those did better on held-out products; their interval is then as wide as the error there. Each kernel also has the
// host's time to launch it and to allocate a result.
//
// A kernel that the profile lacks costs the first of these that is available: for a product with a GELU, the two
// separately; for a product in FP8, the same product in bf16, since a CPU widens both to f32; for a product, another
// product's rate; the kernel's cost in another element type, in proportion to the bytes (products and attention: at
// equal flops per second); its bytes at the median rate of the profile's streaming kernels (plus its flops at the
// profile's peak, if it counts flops).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/device/cost_model.h"
#include "core/proto/profile.pb.h"
#include "sim/cost/kernel_table.h"
#include "sim/cost/training_factors.h"

namespace twofold {

// Caches every answer. Use it from one thread at a time.
class ProfileCostModel : public CostModel {
 public:
  static constexpr double kExtrapolationSlack = 1.5;

  // `profile` as ReadProfile returns it: at least one kernel, each with points. `training`: one of the profile's jobs,
  // or null for kernels alone. `tf32`: products of f32 use the profile's tf32 figures, if it has them.
  explicit ProfileCostModel(const profile::Profile& profile, const profile::Training* training = nullptr,
                            bool tf32 = false);

  Estimate Time(const ops::Op& op) override;
  bool independent() const override { return true; }
  Range common() const override { return common_; }
  Estimate Time(const ops::KernelKey& key, const ops::Cost& cost);

  // One line for a report's notes: where the figures come from.
  std::string Describe() const { return description_; }

 private:
  // Kernel names are literals, so their addresses identify them; a second copy of a name only costs another entry.
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
    double error = 0;  // for interpolated products: 90th percentile
    std::optional<Seconds> launch;
  };
  struct Found {
    const Table* table;  // null: the profile has no similar kernel
    bool same;           // exactly this kernel and element type
  };

  Estimate TimeOfWidened(const ops::MatMul& product);
  Found Find(std::string_view name, DType dtype) const;
  const Table* Product(std::string_view dtype) const;
  std::string Describe(const profile::Profile& profile) const;
  Estimate Compute(const ops::KernelKey& key, const ops::Cost& cost) const;
  Estimate Alone(const ops::KernelKey& key, const ops::Cost& cost) const;
  Estimate FromBytes(const ops::KernelKey& key, const ops::Cost& cost) const;

  std::map<std::pair<std::string, std::string>, Table, std::less<>> tables_;  // by name, element type
  double streaming_rate_ = 0, least_seconds_ = 0, peak_flops_ = 0;
  TrainingFactors factors_;
  double other_factor_ = 1;
  bool tf32_ = false;
  std::optional<Seconds> launch_;  // of a kernel that was not measured
  Range common_;
  std::string description_;
  absl::flat_hash_map<CacheKey, Estimate, CacheHash> cache_;
};

// The training jobs whose figures apply to `ranks` ranks: the same number, or the next smaller one, else the smallest.
// Null: none.
const profile::Training* TrainingFor(const profile::Profile& profile, int64_t ranks);

}  // namespace twofold
