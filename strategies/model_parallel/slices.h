// What a layout's slices hold of which parameters, range by range: slices name parameters and places in this rank's own part of
// them; a parameter's cut (core/nn/parameter.h) says what that is of the whole.
#pragma once

#include "absl/functional/function_ref.h"
#include "core/nn/parameter.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// A stretch of a slice, all of it of one range of one parameter's cut.
struct SliceRange {
  const optim::Slice& slice;
  int64_t offset;  // in the slice
  const nn::Parameter& parameter;
  const nn::Parameter::Run& run;
};

// In the order of the slices and of their parts.
void ForSliceRanges(ParameterLayout& layout, absl::FunctionRef<void(const SliceRange&)> visit);

}  // namespace twofold
