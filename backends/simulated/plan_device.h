// The device of a plan: memory, and the costs of operations under the spec's framework.
#pragma once

#include "absl/status/status.h"
#include "backends/simulated/plan.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// Sets the device and the costs of its operations; `profile` becomes the one that they are from, which is also that of
// the cluster's links.
absl::Status SetCosts(const spec::Spec& spec, const cluster::Cluster& c, SimulationPlan& plan,
                      profile::Profile& profile);

}  // namespace twofold
