// Ranks as a grid with named axes: world = pp * dp * cp * tp. This is the default order, with tp innermost, so tp ranks
// are neighbours. ep divides dp: each run of ep consecutive ranks along dp holds different experts. islands divides dp,
// too: the runs of dp / islands consecutive ranks along dp train on their own, each with its part of the batch.
//
// A mesh is a value that is checked once. A group is a slice of the mesh, with its ranks ordered by their coordinates.
// All ranks know all groups. A group of one rank costs nothing to use.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/comm/process_group.h"

namespace twofold {

enum class Axis { kPp, kDp, kCp, kTp, kEp };
inline constexpr int kGridAxes = 4;    // the axes of the grid: all except ep
std::string_view AxisName(Axis axis);  // "pp"

struct MeshShape {
  int pp = 1, dp = 1, cp = 1, tp = 1, ep = 1;
  std::array<Axis, kGridAxes> order = {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp};  // outermost first
  int islands = 1;
  int size() const { return pp * dp * cp * tp; }
  int extent(Axis axis) const;
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};
// Parses "pp dp cp tp", which must name each axis once. An error says what is wrong.
absl::StatusOr<std::array<Axis, kGridAxes>> ParseMeshOrder(std::string_view text);
// On a mismatch the error states both sizes.
absl::Status CheckMesh(const MeshShape& shape, int world_size);

// The coordinates of a rank.
struct MeshPlace {
  int pp = 0, dp = 0, cp = 0, tp = 0;
  int at(Axis axis) const;  // not kEp
};
MeshPlace PlaceOf(const MeshShape& shape, int rank);
int RankAt(const MeshShape& shape, const MeshPlace& place);

// Kinds of groups, named by the axes along which their ranks differ.
enum class MeshGroup {
  kPp,
  kDp,
  kCp,
  kTp,        // one axis each, numbered as Axis
  kEp,        // consecutive ranks along dp that hold different experts
  kReplicas,  // along dp and cp, within an island: all ranks with the same parameters, apart from experts; ordered
              // by dp, then cp
  kExpertReplicas,  // the replicas that hold the same experts
  kModel,           // along pp and tp: together they hold one copy of the model
  kIslands,         // the ranks at the same place in each island
  kBatch,           // along dp and cp, of all islands; with one island the same as kReplicas
};
std::string_view MeshGroupName(MeshGroup along);  // "dp", "replicas"
inline constexpr size_t kMeshGroups = 10;
// Groups of ranks, each in order, sorted by first rank. Together they contain every rank once.
using GroupList = std::vector<std::vector<int>>;
GroupList GroupsOf(const MeshShape& shape, MeshGroup along);

// The groups of all kinds. Kinds with the same groups share one list, and all meshes of one shape share their lists:
// with 100,000 ranks a list is large, and every rank needs all of them.
using MeshGroups = std::array<std::shared_ptr<const GroupList>, kMeshGroups>;  // by MeshGroup
std::shared_ptr<const MeshGroups> AllGroupsOf(const MeshShape& shape);         // for use by several threads

class DeviceMesh {
 public:
  // Collective over `world`, which must outlive the mesh. The shape must fit it (CheckMesh). MeshGroups with the same
  // ranks share one process group, named after the first of them. A group of all ranks in order shares the world's.
  DeviceMesh(ProcessGroup& world, const MeshShape& shape);
  const MeshShape& shape() const { return shape_; }
  ProcessGroup& world() { return world_; }
  ProcessGroup& Group(MeshGroup along) { return *groups_[static_cast<size_t>(along)]; }
  const GroupList& ListOf(MeshGroup along) const { return *(*lists_)[static_cast<size_t>(along)]; }  // all such groups
  // A group like Group(along), with a stream of its own. Collective over the world.
  std::unique_ptr<ProcessGroup> NewGroup(MeshGroup along, std::string name);
  // Groups with given ranks, which together must contain every rank once. Collective over the world.
  std::unique_ptr<ProcessGroup> NewGroups(const GroupList& groups, std::string name);
  int Coordinate(Axis axis) const;

 private:
  ProcessGroup& world_;
  const MeshShape shape_;
  const std::shared_ptr<const MeshGroups> lists_;
  const MeshPlace place_;
  std::vector<std::unique_ptr<ProcessGroup>> owned_;
  std::array<ProcessGroup*, kMeshGroups> groups_;  // owned by owned_, or the world itself
};

}  // namespace twofold
