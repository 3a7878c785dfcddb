// What the fullest rank of a layout needs of its device, by an exact replay of all of its micro-batches.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/proto/framework.pb.h"
#include "core/proto/spec.pb.h"
#include "strategies/trainer.h"

namespace twofold::plan {

// Bytes that its allocator reserves; under `other`, a framework other than this program's, what its device must have.
// RESOURCE_EXHAUSTED: it runs out of memory. `spec` is resolved and valid; `other` may be null.
absl::StatusOr<int64_t> ReservedOf(const spec::Spec& spec, const Samples& samples, const framework::Framework* other);

}  // namespace twofold::plan
