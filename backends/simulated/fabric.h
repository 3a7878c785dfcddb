// The simulated fabric: ranks as actors in virtual time.
//
// Every run is a forked child: SimGrid takes one engine a process. Results come back through a pipe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/registry.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Checks what the spec asks of the cluster: that it exists, that the profile can be read, that the ranks fit, that the
// algorithm is known.
absl::StatusOr<std::unique_ptr<Fabric>> MakeSimulatedFabric(const spec::Spec& spec);

}  // namespace twofold
