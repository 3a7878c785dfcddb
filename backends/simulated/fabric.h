// The simulated fabric: ranks are actors in virtual time.
//
// Every run is a forked child, since SimGrid allows one engine per process. Results come back through a pipe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Checks the spec's requests: that the cluster exists, the profile can be read, the ranks fit, and the algorithm is
// known.
absl::StatusOr<std::unique_ptr<Fabric>> MakeSimulatedFabric(const spec::Spec& spec);

// The names of the cluster's links, which faults of the network name, for as many ranks as there can ever be.
absl::StatusOr<std::vector<std::string>> SimulatedLinks(const spec::Spec& spec);

// Why this build has no simulator; "" if it has.
std::string WhyNoSimulated();
// Host memory held by each group of several ranks if the predicted run would stage GPU buffers through it.
Bytes SimulatedStaging(const spec::Spec& spec);

}  // namespace twofold
