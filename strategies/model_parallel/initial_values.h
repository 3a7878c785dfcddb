// The first values of parameters that several ranks of one copy of a model have, and that each drew by itself: positions, routers,
// heads of keys and values that ranks share, the table that first and last stage of a pipeline share. Everybody takes those of the
// first rank that has them, so that hosts whose mathematical libraries round otherwise begin alike. From there on they update alike
// (gradient_sums.h). Constants (norms, biases) are the same anywhere and stay at home.
//
// With S the bytes of such parameters in a rank's slices:
//   memory         S, while it runs, where they do not lie in one piece; before activations and optimizer state exist
//   communication  one broadcast of S a group, once at the start; then layouts that keep shards beside the whole put it together again
// Limits: those of shared_ranges.h. That ranks which hold equal copies of all they have begin alike is the layout's affair.
#pragma once

#include "strategies/model_parallel/shared_ranges.h"

namespace twofold {

// One rank's; all handed in outlives it.
class InitialValues {
 public:
  InitialValues(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers);
  // After the layout is made, before anything is made of the values. Collective over each group, and over the layout's ranks.
  void Share();
  const SharedRanges& ranges() const { return ranges_; }

 private:
  ParameterLayout& layout_;
  const bool shares_;  // this rank, or one that has another shard of the same parameters
  SharedRanges ranges_;
};

}  // namespace twofold
