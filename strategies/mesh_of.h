// The device mesh that a spec describes.
#pragma once

#include "core/comm/device_mesh.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// The spec's `order` must be valid (it was validated), or empty for the default order.
MeshShape MeshOf(const spec::Parallel& parallel);

}  // namespace twofold
