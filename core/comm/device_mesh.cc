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
    owned_[a] = Slice(world, axis, stride);
    groups_[a] = owned_[a].get();
  }
}

std::unique_ptr<ProcessGroup> DeviceMesh::Slice(ProcessGroup& world, Axis axis, int stride) const {
  const std::string name(AxisName(axis));
  const int extent = shape_.extent(axis), here = Coordinate(axis);
  if (extent == 1) return world.Alone(name);
  if (stride == 1) return world.SplitEvenly(extent, ProcessGroup::Pattern::kConsecutive, name);
  if (stride * extent == world.size()) return world.SplitEvenly(extent, ProcessGroup::Pattern::kStrided, name);
  return world.Split(world.rank() - here * stride, here, name);  // the color is the rank of the member whose coordinate is 0
}

}  // namespace twofold
