#include "core/comm/device_mesh.h"

#include <string>

#include "core/base/strings.h"

namespace twofold {

std::string_view AxisName(Axis axis) {
  constexpr std::array<std::string_view, kAxes> kNames = {"pp", "dp", "cp", "tp"};
  return kNames[static_cast<size_t>(axis)];
}

int MeshShape::extent(Axis axis) const {
  switch (axis) {
    case Axis::kPp: return pp;
    case Axis::kDp: return dp;
    case Axis::kCp: return cp;
    case Axis::kTp: return tp;
  }
  return 1;
}

absl::Status CheckMesh(const MeshShape& shape, int world_size) {
  for (int a = 0; a < kAxes; ++a) {
    const Axis axis = static_cast<Axis>(a);
    if (shape.extent(axis) < 1) {
      return absl::InvalidArgumentError(
          StrCat("parallel.", AxisName(axis), " is ", shape.extent(axis), "; it must be 1 or more"));
    }
  }
  const int64_t size = int64_t{shape.pp} * shape.dp * shape.cp * shape.tp;
  if (size == world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("parallel: pp * dp * cp * tp = ", shape.pp, " * ", shape.dp, " * ",
                                                 shape.cp, " * ", shape.tp, " = ", size, ", but there are ",
                                                 world_size, " ranks"));
}

DeviceMesh::DeviceMesh(ProcessGroup& world, const MeshShape& shape) : shape_(shape) {
  const absl::Status fits = CheckMesh(shape, world.size());
  TWOFOLD_CHECK(fits.ok(), std::string(fits.message()));
  int rest = world.rank();
  for (int a = kAxes - 1; a >= 0; --a) {  // tp is innermost
    const int extent = shape.extent(static_cast<Axis>(a));
    coordinates_[static_cast<size_t>(a)] = rest % extent;
    rest /= extent;
  }
  int stride = world.size();
  for (size_t a = 0; a < kAxes; ++a) {
    const Axis axis = static_cast<Axis>(a);
    const int extent = shape.extent(axis);
    stride /= extent;  // between neighbours along this axis
    if (extent == world.size() && extent > 1) {
      groups_[a] = &world;
      continue;
    }
    // The color is the rank of the member whose coordinate on this axis is 0.
    const int color = world.rank() - coordinates_[a] * stride;
    const std::string name(AxisName(axis));
    owned_[a] = extent == 1 ? world.Alone(name) : world.Split(color, coordinates_[a], name);
    groups_[a] = owned_[a].get();
  }
}

}  // namespace twofold
