// Maps a layout's slices to parameters, range by range. A slice names parameters and offsets in this rank's part of
// them; the parameter's nn::ShardLayout (core/nn/parameter.h) says where that part lies in the whole.
#pragma once

#include "absl/functional/function_ref.h"
#include "core/nn/parameter.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// A stretch of a slice that lies in one range of one parameter's nn::ShardLayout.
struct SliceRange {
  const optim::Slice& slice;
  int64_t offset;  // in the slice
  const nn::Parameter& parameter;
  const nn::Parameter::Run& run;
};

// Visits the ranges in the order of the slices and of their parts.
void ForSliceRanges(ParameterLayout& layout, absl::FunctionRef<void(const SliceRange&)> visit);

}  // namespace twofold
