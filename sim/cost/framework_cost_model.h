// The time of operations under another framework, on a device whose own times another model knows.
//
//   separate parts   an operation that does two things in one pass (passes.h), of which the framework does the second
//                    in a kernel of its own: the sum of two kernels, each with its launch
//   accumulation     a product that adds to its result, if the framework adds in another kernel: the product and a sum
//   factor           of a kernel: its time beyond the device's kernel_us is multiplied by it. Of several entries for a
//                    kernel, the last that is for this device holds
//   families         of kernels (core/device/kernel_names.h): their times beyond the device's kernel_us are multiplied,
//                    too
//   tp_overlap       parts of a product on several streams take their shares of the whole product
//   launch_us        host time of an operation: of the kernel, else of the framework, else of the device; of a part of
//                    a product, that of tp_overlap
//
// Assumes: the framework's kernels stream memory, and multiply, as well as the device's model says.
// Ignores: what the framework does on the host beside launching operations.
// Calibrated from: the framework's file (core/proto/framework.proto), which names its sources.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/device/cost_model.h"
#include "core/device/kernel_names.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/framework.pb.h"

namespace twofold {

class FrameworkCostModel : public CostModel {
 public:
  // `own`: the device's. Figures are valid (topologies/frameworks.h, CheckFrameworkKernels).
  FrameworkCostModel(std::unique_ptr<CostModel> own, const framework::Time& time, const cluster::Device& device);
  Estimate Time(const ops::Op& op) override;
  double Slowdown(const ops::Op& op, const BesideIt& takes) override { return own_->Slowdown(op, takes); }
  bool independent() const override { return own_->independent(); }

 private:
  Estimate Sum(const ops::Op& a, const ops::Op& b);
  Estimate One(const ops::Op& op);
  Estimate OwnTime(const ops::Op& op, const ops::MatMul* part) const;
  double FamilyFactor(std::string_view kernel) const;

  const std::unique_ptr<CostModel> own_;
  const double kernel_s_;        // minimum device time of a kernel
  const Seconds device_launch_;  // host time of an operation, by the device
  const bool separate_accumulation_;
  const std::optional<Seconds> launch_;
  const bool parts_side_by_side_;
  const std::optional<Seconds> part_launch_;
  std::set<std::string, std::less<>> separate_;
  std::map<std::string, framework::Kernel, std::less<>> kernels_;
  std::map<ops::KernelClass, double> families_;  // factors
};

// Whether all kernels that `time` names exist; the message begins with the field.
absl::Status CheckFrameworkKernels(const framework::Time& time);

}  // namespace twofold
