// Cross-entropy loss, sums and accuracy.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// losses (f32)[rows] = -log softmax(logits)[target]; lse (f32)[rows]. A target outside the classes aborts the program
// on CPUs. A GPU cannot report it, so its loss is NaN.
struct CrossEntropyForward {
  Tensor logits /*[rows, classes]*/, targets /*I32 or U8 [rows]*/, losses, lse;
};
// dlogits = scale * (softmax - onehot). dlogits may be logits itself.
struct CrossEntropyBackward {
  Tensor logits, targets, lse, dlogits;
  double scale = 1;
};
struct Sum {
  Tensor in, out /*(f32)[1]*/;
  double factor = 1;
  bool accumulate = false;
};  // out = factor * sum(in)

// out (+)= the number of rows whose largest logit (the first, if equal) is the target's. A row of NaNs has no largest
// logit.
struct CountCorrect {
  Tensor logits /*[rows, classes]*/, targets /*I32 or U8 [rows]*/, out /*(f32)[1]*/;
  bool accumulate = false;
};

namespace rules {
Bytes CudaWorkspace(const Sum&);
Bytes CudaWorkspace(const CountCorrect&);
}  // namespace rules

}  // namespace twofold::ops
