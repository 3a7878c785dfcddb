// The simulated fabric: ranks as actors in virtual time.
//
// Every run is a forked child: SimGrid takes one engine a process. Results come back through a pipe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Checks what the spec asks of the cluster: that it exists, that the profile can be read, that the ranks fit, that the
// algorithm is known.
absl::StatusOr<std::unique_ptr<Fabric>> MakeSimulatedFabric(const spec::Spec& spec);

// Why this build has no simulator; "": it has.
std::string WhyNoSimulated();
// Of the host's memory, for each group of several ranks, where the predicted run would stage GPUs' through it.
Bytes SimulatedStaging(const spec::Spec& spec);

}  // namespace twofold
