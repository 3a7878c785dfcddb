// The in-memory fabric: every rank is a thread of this process, with its own allocator and its own device: the CPU, a
// GPU (which several ranks may share) or an emulated device.
//
// On a GPU, a collective is kernels and copies on the ranks' communication streams, and a message is one copy, all
// ordered by events. A call's stream waits for the compute streams of all ranks that take part, and WaitOn(compute
// stream) makes the compute stream wait for the call's. In between, hosts wait only for each other's calls, not for
// GPUs. If there are several GPUs, each must have peer access to the others' memory (ConnectGpus, mover.h). Slowed
// links work as on CPUs: communication threads wait for the GPU before and after a call, and WaitOn blocks the host.
//
// Reductions are in rank order; BF16 and F16 accumulate in F32 and are rounded once. run_state.h and group_state.h
// describe how a rank's failure ends the others and what the messages say.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/in_memory/group.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Reads train.threads_per_rank, fabric.timeout_s, fabric.in_memory, memory, device, emulated and cuda. If CUDA is
// unavailable, refuses device: CUDA with the reason.
absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec);
// Same, if everything that the spec asks for is known to be available.
std::unique_ptr<Fabric> MakeInMemoryFabric(const spec::Spec& spec, in_memory::GroupOptions options);

}  // namespace twofold
