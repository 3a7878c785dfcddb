// The mesh that a spec asks for.
#pragma once

#include "core/comm/device_mesh.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// The spec's order must be one (it was validated), or empty: the default.
MeshShape MeshOf(const spec::Parallel& parallel);

}  // namespace twofold
