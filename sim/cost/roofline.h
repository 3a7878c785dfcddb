// The time of operations according to a device's data sheet (Williams, Waterman and Patterson 2009, "Roofline").
//
//   products, attention: max(flops / (peak * matmul_efficiency), bytes / (bandwidth * memory_efficiency)) + kernel_us
//   everything else:     bytes / (bandwidth * memory_efficiency) + kernel_us
// with the peak of the operation's element type (f16 uses that of bf16; a type without a figure uses f32's).
//
// Assumes: two efficiencies hold for every size and shape.
// Ignores: tile and wave quantisation, caches, clock rates that drop under load.
// Calibrated from: no measurements here; the cluster's file states the source of the figures. The interval is
// kDataSheetError in both directions.
#pragma once

#include <string>

#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

class RooflineCostModel : public CostModel {
 public:
  static constexpr double kDataSheetError = 0.3;

  // `device` must have memory_bytes_per_second and f32_flops_per_second above 0.
  explicit RooflineCostModel(const cluster::Device& device);

  Estimate Time(const ops::Op& op) override;
  std::string Describe() const;  // one line for a report's notes

 private:
  double Peak(DType dtype) const;  // flops per second; 0 if the data sheet has no figure
  cluster::Device device_;
};

}  // namespace twofold
