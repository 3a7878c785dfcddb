// From samples to a profile.
#pragma once

#include <string_view>
#include <vector>

#include "core/proto/profile.pb.h"
#include "experiments/program/calibrate/measure_links.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

// One point a case: its dimensions and costs, the median and the percentiles of its samples. Rows of `samples` belong
// to `keys` and `costs`. Sets kernels (in the order of first appearance) and peak_flops_per_second.
void AddKernels(const std::vector<ops::KernelKey>& keys, const std::vector<ops::Cost>& costs, const Samples& samples,
                profile::Profile& profile);

// One point of a kernel, whose type may be called otherwise than its operands' is.
void AddPoint(const ops::KernelKey& key, std::string_view dtype, const ops::Cost& cost, const std::vector<double>& samples, profile::Profile& profile);

// `samples` as MeasureLinks returns them, of all ranks together.
void AddLinks(const Samples& samples, int ranks, profile::Profile& profile);

}  // namespace twofold::calibrate
