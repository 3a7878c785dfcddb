// Ranks as a grid with named axes: world = pp * dp * cp * tp, tp innermost.
//
// A mesh is a value checked once; a group is a slice of it. Groups of one cost nothing to use.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "core/comm/process_group.h"

namespace twofold {

enum class Axis { kPp, kDp, kCp, kTp };
inline constexpr int kAxes = 4;
std::string_view AxisName(Axis axis);  // "pp"

struct MeshShape {
  int pp = 1, dp = 1, cp = 1, tp = 1;
  int size() const { return pp * dp * cp * tp; }
  int extent(Axis axis) const;
};
// Says both sides with their numbers when they disagree.
absl::Status CheckMesh(const MeshShape& shape, int world_size);

class DeviceMesh {
 public:
  // Collective over `world`, which must outlive the mesh; the shape must fit it (CheckMesh). Axes of full or unit extent
  // make no new traffic.
  DeviceMesh(ProcessGroup& world, const MeshShape& shape);
  const MeshShape& shape() const { return shape_; }
  ProcessGroup& Group(Axis axis) { return *groups_[static_cast<size_t>(axis)]; }
  int Coordinate(Axis axis) const { return coordinates_[static_cast<size_t>(axis)]; }

 private:
  // The group along an axis whose neighbours are `stride` ranks apart.
  std::unique_ptr<ProcessGroup> Slice(ProcessGroup& world, Axis axis, int stride) const;

  MeshShape shape_;
  std::array<int, kAxes> coordinates_;
  std::array<std::unique_ptr<ProcessGroup>, kAxes> owned_;
  std::array<ProcessGroup*, kAxes> groups_;  // owned, or the world itself
};

}  // namespace twofold
