// The in-memory fabric: every rank is a thread of this process with an allocator and a device of its own: the CPU, a GPU, which several
// ranks may share, or an emulated device.
//
// Reductions are in rank order, narrow types accumulate in f32 and are rounded once. How a rank's failure ends the others
// and what the messages say: run_state.h and group_state.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/in_memory/group.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

struct Backend;

// Uses train.threads_per_rank, fabric.timeout_s, fabric.in_memory, device, emulated and cuda. Refuses device: CUDA, with the reason,
// where it cannot be had.
absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec);
// Likewise, where it is known that what the spec asks for is there.
std::unique_ptr<Fabric> MakeInMemoryFabric(const spec::Spec& spec, in_memory::GroupOptions options);

const Backend& InMemoryBackend();

}  // namespace twofold
