// From samples to a profile.
#pragma once

#include <string_view>
#include <vector>

#include "core/proto/profile.pb.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

// Adds one point per case: its dimensions and costs, the median and the percentiles of its samples. Rows of `samples`
// match `keys` and `costs`. Sets kernels (in the order of first appearance) and peak_flops_per_second.
void AddKernels(const std::vector<ops::KernelKey>& keys, const std::vector<ops::Cost>& costs, const Samples& samples,
                profile::Profile& profile);

// Adds one point of a kernel under type name `dtype`, which may differ from the operands' type.
void AddPoint(const ops::KernelKey& key, std::string_view dtype, const ops::Cost& cost,
              const std::vector<double>& samples, profile::Profile& profile);

// `samples` of all ranks together, as MeasureLinks returns them.
void AddLinks(const Samples& samples, int ranks, profile::Profile& profile);

}  // namespace twofold::calibrate
