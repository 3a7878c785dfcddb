// The softmax cross-entropy of logits whose classes are split over ranks (Shoeybi et al. 2019, section 3). These are
// the local steps between the reductions over ranks, which reduce a few numbers per row.
// logits [rows, n]: the first `classes` of the n columns (possibly none) are the classes from `first` on. The other
// columns are padding and are ignored. targets (I32 or U8) [rows] refer to all classes. They are not checked: a target
// that belongs to no rank gets the loss of a logit equal to the largest one.
//     largest = the ranks' maximum of SplitMax;  sums = the ranks' sum of SplitSums;  then SplitLosses,
//     and SplitBackward
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// largest (f32)[rows]: minus infinity if there are no classes.
struct SplitMax {
  Tensor logits, largest;
  int64_t classes = 0;
};
// sums (f32)[2 or 3, rows]: [0] = the sum of exp(logit - largest); [1] = logit - largest of the target if it is one of
// these classes, else 0; [2] = the number of classes before the target that have the largest logit.
struct SplitSums {
  Tensor logits, targets, largest, sums;
  int64_t first = 0, classes = 0;
};
// losses (f32)[rows] = log(sums[0]) - sums[1] = -log softmax(logits)[target]; lse (f32)[rows] = largest + log(sums[0]).
struct SplitLosses {
  Tensor largest, sums, losses, lse;
};
// dlogits = scale * (softmax - onehot), and 0 in the padding. dlogits may be logits itself.
struct SplitBackward {
  Tensor logits, targets, lse, dlogits;
  int64_t first = 0, classes = 0;
  double scale = 1;
};
// out (+)= the number of rows whose largest logit (the first, if equal) is the target's. Uses sums with three values
// per row.
struct SplitCorrect {
  Tensor sums, out /*(f32)[1]*/;
  bool accumulate = false;
};

}  // namespace twofold::ops
