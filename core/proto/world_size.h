// How many ranks a spec asks for.
#pragma once

#include <cstdint>

#include "core/proto/spec.pb.h"

namespace twofold {

// pp * dp * cp * tp, and the servers of train.async_sgd. Not below 1 in a spec that was validated.
int64_t WorldSize(const spec::Spec& spec);

}  // namespace twofold
