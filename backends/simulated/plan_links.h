// The links of a plan: those of the cluster, or of the ranks of one host.
#pragma once

#include "absl/status/status.h"
#include "backends/simulated/plan.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace twofold {

// Sets the topology and what ranks of one host share. Refuses fields that contradict the cluster.
absl::Status SetLinks(const spec::Spec& spec, const cluster::Cluster& c, const profile::Profile& profile,
                      SimulationPlan& plan);

// Uses collectives that were measured with this number of ranks, and the uncertainty of the relevant ones' times. In an
// elastic run, the number that trains varies: then also those that were measured with fewer ranks.
void SetCollectives(const google::protobuf::RepeatedPtrField<profile::MeasuredCollective>& measured,
                    SimulationPlan& plan);

}  // namespace twofold
