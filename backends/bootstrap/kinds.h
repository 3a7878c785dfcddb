// The kinds of bootstrap; MakeBootstrap chooses. Of each, CMake chooses between the real file and one that says why this build has
// it not.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/bootstrap/bootstrap.h"
#include "backends/launch/launch.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// By MPI. UNIMPLEMENTED: this build has no MPI. FAILED_PRECONDITION where the library finds other processes than `launch` says.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeMpiBootstrap(const spec::Spec& spec, const Launch& launch);

// By the store of rank 0. UNIMPLEMENTED: this build has no gRPC.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeStoreBootstrap(const spec::Spec& spec, const Launch& launch);

}  // namespace twofold
