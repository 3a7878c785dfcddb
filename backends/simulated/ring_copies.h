// Which messages are copies by the GPUs' copy engines (sim/collectives/copy_engines.h): those of parallel.tp_overlap
// under a framework that does so (framework.TpOverlap). In a group of tp there are no other messages. If tp is the
// whole world, that group is the world's, and there are no pipelines or rings along cp.
#pragma once

#include <optional>
#include <span>

#include "core/comm/device_mesh.h"
#include "core/proto/framework.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct RingCopies {
  MeshShape mesh;
  double launch_seconds = 0;  // host time of a copy
  // `ranks`: of a group, by their numbers in the world.
  bool Among(std::span<const int> ranks) const;
};

// Nothing if no messages are copies. `launch_seconds`: of a message, unless the framework says otherwise for copies.
std::optional<RingCopies> RingCopiesOf(const spec::Parallel& parallel, const framework::TpOverlap& framework,
                                       double launch_seconds);

}  // namespace twofold
