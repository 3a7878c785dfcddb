// Ranks as a grid with named axes: world = pp * dp * cp * tp, by default in this order, tp innermost: its ranks are neighbours.
// ep divides dp: of the ranks along dp, ep in a row hold different experts.
//
// A mesh is a value checked once; a group is a slice of it, and its ranks are in the order of their coordinates. All ranks know
// all groups. Groups of one cost nothing to use.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/comm/process_group.h"

namespace twofold {

enum class Axis { kPp, kDp, kCp, kTp, kEp };
inline constexpr int kGridAxes = 4;  // those that the grid is made of: all but ep
std::string_view AxisName(Axis axis);  // "pp"

struct MeshShape {
  int pp = 1, dp = 1, cp = 1, tp = 1, ep = 1;
  std::array<Axis, kGridAxes> order = {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp};  // outermost first
  int size() const { return pp * dp * cp * tp; }
  int extent(Axis axis) const;
};
// From "pp dp cp tp": each of them once. Says what is wrong.
absl::StatusOr<std::array<Axis, kGridAxes>> ParseMeshOrder(std::string_view text);
// Says both sides with their numbers when they disagree.
absl::Status CheckMesh(const MeshShape& shape, int world_size);

// Where a rank is.
struct MeshPlace {
  int pp = 0, dp = 0, cp = 0, tp = 0;
  int at(Axis axis) const;  // not kEp
};
MeshPlace PlaceOf(const MeshShape& shape, int rank);
int RankAt(const MeshShape& shape, const MeshPlace& place);

// Ranks that have something in common, by what differs between them.
enum class MeshGroup {
  kPp, kDp, kCp, kTp,  // one axis, numbered as Axis
  kEp,              // ranks in a row along dp that hold different experts
  kReplicas,        // dp and cp: all that hold the same parameters, but for experts; in the order dp, cp
  kExpertReplicas,  // those of them that hold the same experts
  kModel,           // pp and tp: together they hold one copy of the model
};
std::string_view MeshGroupName(MeshGroup along);  // "dp", "replicas"
// All such groups, each with its ranks in order, by their first rank: together every rank once.
std::vector<std::vector<int>> GroupsOf(const MeshShape& shape, MeshGroup along);

class DeviceMesh {
 public:
  // Collective over `world`, which must outlive the mesh; the shape must fit it (CheckMesh). MeshGroups
  // of equal ranks share one process group, under the first one's name; all ranks in order share the world's.
  DeviceMesh(ProcessGroup& world, const MeshShape& shape);
  const MeshShape& shape() const { return shape_; }
  ProcessGroup& world() { return world_; }
  ProcessGroup& Group(MeshGroup along) { return *groups_[static_cast<size_t>(along)]; }
  // A group like Group(along) with a stream of its own. Collective over the world.
  std::unique_ptr<ProcessGroup> NewGroup(MeshGroup along, std::string name);
  // Groups of the caller's own making: every rank once. Collective over the world.
  std::unique_ptr<ProcessGroup> NewGroups(const std::vector<std::vector<int>>& groups, std::string name);
  int Coordinate(Axis axis) const;

 private:
  static constexpr size_t kMeshGroups = 8;
  ProcessGroup& world_;
  const MeshShape shape_;
  const MeshPlace place_;
  std::vector<std::unique_ptr<ProcessGroup>> owned_;
  std::array<ProcessGroup*, kMeshGroups> groups_;  // owned, or the world itself
};

}  // namespace twofold
