// Which stages of a pipeline have their ranks equally far from each other. On most meshes all have; where a group of
// ranks does not divide a node or a site, one stage's may be within it, and another's not.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/simulated/least_times.h"
#include "core/comm/device_mesh.h"

namespace twofold::plan {

// The ranks with which rank (stage, 0, cp, 0) shares all but one coordinate, or dp and cp: its tp, cp or ep ranks, or
// the first `count` of its replicas.
std::vector<int> GroupInStage(const MeshShape& mesh, MeshGroup along, int stage, int64_t count, int cp = 0);

// For each stage, the first one that is like it: collectives of the groups of its first and its last rank along cp take
// as long. `shard_group`: of HYBRID_SHARD, else 0.
std::vector<int> KindsOfStages(const MeshShape& mesh, int64_t shard_group, LeastTimes& times);

}  // namespace twofold::plan
