// What operations take on a machine that `twofold calibrate` has measured.
//
// Assumes: a kernel's time depends on its dimensions and the bytes it touches; ranks keep the machine as busy as
// calibration did (all cores at it); operands come from where calibration's did (outer caches and memory).
// Ignores: what runs beside the ranks, changing clock rates, and cache contents that one operation leaves for the next.
// Calibrated from: the profile's points, the median of several rounds each; low and high are their 10th and 90th
// percentile. An estimate outside the measured sizes, or of a kernel that the profile lacks, is marked extrapolated and
// its interval is widened by kExtrapolationSlack either way.
//
// A kernel that the profile lacks costs, in this order: another product's rate (for a product); what the kernel costs in
// another element type, in proportion to the bytes (products and attention: at equal flops per second); what its bytes
// cost at the median rate of the profile's streaming kernels (and its flops at the profile's peak, where it counts them).
#pragma once

#include <map>
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

  // `profile` is as ReadProfile gives it: one kernel or more, each with points.
  explicit ProfileCostModel(const profile::Profile& profile);

  Estimate Time(const ops::Op& op) override;
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
  struct Found {
    const KernelTable* table;  // null: the profile has nothing like it
    bool same;                 // the very kernel, in the very element type
  };

  Found Find(std::string_view name, DType dtype) const;
  const KernelTable* Product(std::string_view dtype) const;
  Estimate Compute(const ops::KernelKey& key, const ops::Cost& cost) const;
  Estimate FromBytes(const ops::KernelKey& key, const ops::Cost& cost) const;

  std::map<std::pair<std::string, std::string>, KernelTable, std::less<>> tables_;  // by name, element type
  double streaming_rate_ = 0, least_seconds_ = 0, peak_flops_ = 0;
  std::string description_;
  absl::flat_hash_map<CacheKey, Estimate, CacheHash> cache_;
};

}  // namespace twofold
