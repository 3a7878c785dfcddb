// How the processes of a run come to its control plane (backends/control/client.h), which rank 0's process holds.
//
// If MPI's launcher started the processes and the build has MPI, MPI tells them where the plane is, and its token.
// Otherwise the launcher's variables or fabric.rendezvous do. Call from the main thread only.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/control/client.h"
#include "backends/launch/launch.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// Chooses by how this process was launched (backends/launch/launch.h) and by fabric.rendezvous. Returns once all
// processes have arrived. An error names the process that never came, came twice or was lost, or the variable that is
// missing or wrong and its correct value.
absl::StatusOr<std::unique_ptr<control::Client>> Meet(const spec::Spec& spec);

// By MPI. UNIMPLEMENTED: this build has no MPI. FAILED_PRECONDITION: the library finds other processes than `launch`
// says. CMake selects the source file or a stub.
absl::StatusOr<std::unique_ptr<control::Client>> MeetByMpi(const spec::Spec& spec, const Launch& launch);

}  // namespace twofold
