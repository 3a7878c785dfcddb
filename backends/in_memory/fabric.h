// The in-memory fabric: every rank is a thread of this process with an allocator and a device of its own: the CPU, a GPU, which several
// ranks may share, or an emulated device.
//
// On a GPU a collective is kernels and copies on the ranks' communication streams, a message one copy, all ordered by events. A
// call's stream waits for the compute streams of all ranks that take part, and WaitOn(compute stream) has the compute stream wait
// for the call's; in between hosts wait for each other's calls, not for GPUs. Several GPUs must reach each other's memory
// (ConnectGpus, mover.h). Links that are slowed down work as on CPUs; then communication threads wait for the GPU before and after a
// call, and WaitOn is a wait of the host.
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

// Uses train.threads_per_rank, fabric.timeout_s, fabric.in_memory, memory, device, emulated and cuda. Refuses device: CUDA, with the
// reason, where it cannot be had.
absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec);
// Likewise, where it is known that what the spec asks for is there.
std::unique_ptr<Fabric> MakeInMemoryFabric(const spec::Spec& spec, in_memory::GroupOptions options);

}  // namespace twofold
