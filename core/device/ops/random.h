// Random initial values.
#pragma once

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

// Element i of out is element where.Of(i) of the key's sequence: a shard draws its own part.
struct RandomFill {
  // kNormal: mean a, standard deviation b; kUniform: [a, b)
  enum Distribution { kNormal, kUniform } distribution = kNormal;
  Tensor out;
  double a = 0, b = 1;
  PhiloxKey key;
  IndexMap where;
};

}  // namespace twofold::ops
