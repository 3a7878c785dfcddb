// What operations take by a device's data sheet (Williams, Waterman and Patterson 2009, "Roofline").
//
//   products, attention: max(flops / (peak * matmul_efficiency), bytes / (bandwidth * memory_efficiency)) + kernel_us
//   everything else:     bytes / (bandwidth * memory_efficiency) + kernel_us
// with the peak of the operation's element type (f16: that of bf16; a type without a figure: f32's).
//
// Assumes: two efficiencies hold for every size and shape.
// Ignores: tile and wave quantisation, caches, clock rates that sink under load.
// Calibrated from: nothing measured here; the cluster's file states the figures' source. The interval is
// kDataSheetError either way.
#pragma once

#include <string>

#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"

namespace twofold {

class RooflineCostModel : public CostModel {
 public:
  static constexpr double kDataSheetError = 0.3;

  // `device` states memory_bytes_per_second and f32_flops_per_second above 0.
  explicit RooflineCostModel(const cluster::Device& device);

  Estimate Time(const ops::Op& op) override;
  std::string Describe() const;  // one line for a report's notes

 private:
  double Peak(DType dtype) const;  // flops per second, 0 when the sheet has none
  cluster::Device device_;
};

}  // namespace twofold
