// Rotary position embedding (Su et al. 2021).
#pragma once

#include <vector>

#include "core/device/ops/op.h"

namespace twofold::ops {

// Row p of table [t, 2 * frequencies.size()] (F32 or F64) holds the cosines of p * frequency, then the sines. Angles
// are computed in double.
struct RotaryTable {
  Tensor table;
  std::vector<double> frequencies;
};

// At position p of x [b, t, c], the first `heads` heads of head_dim = table.dim(1) elements are rotated. The rest is
// copied. Element i of a head's first half is paired with element i of its second half (the halves of Hugging Face's
// rotate_half, not the pairs of the paper). They are rotated by the angle of row p of table (f32)[n, head_dim].
// `inverse` rotates back, which is the backward pass. y may be x.
struct Rotary {
  Tensor x, table, y;
  int64_t heads = 1;
  bool inverse = false;
  IndexMap positions = {};
};

}  // namespace twofold::ops
