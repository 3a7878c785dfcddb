// The kinds of bootstrap; MakeBootstrap chooses one. For each, CMake selects the real source file or a stub that says
// why this build lacks it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/bootstrap/bootstrap.h"
#include "backends/launch/launch.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// Uses MPI. UNIMPLEMENTED: this build has no MPI. FAILED_PRECONDITION: the library finds other processes than `launch`
// says.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeMpiBootstrap(const spec::Spec& spec, const Launch& launch);

// Uses the store of rank 0. UNIMPLEMENTED: this build has no gRPC.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeStoreBootstrap(const spec::Spec& spec, const Launch& launch);

}  // namespace twofold
