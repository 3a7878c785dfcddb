#include "core/comm/device_mesh.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace twofold {
namespace {

// The axes, apart from parts of dp, whose coordinates differ within a group.
std::vector<Axis> AxesOf(MeshGroup along) {
  switch (along) {
    case MeshGroup::kPp: return {Axis::kPp};
    case MeshGroup::kDp: return {Axis::kDp};
    case MeshGroup::kCp: return {Axis::kCp};
    case MeshGroup::kTp: return {Axis::kTp};
    case MeshGroup::kBatch: return {Axis::kDp, Axis::kCp};
    case MeshGroup::kModel: return {Axis::kPp, Axis::kTp};
    case MeshGroup::kReplicas:
    case MeshGroup::kExpertReplicas: return {Axis::kCp};
    case MeshGroup::kEp:
    case MeshGroup::kIslands: break;
  }
  return {};
}

// A number in mixed radix: each digit may have a different base.
struct Number {
  int value = 0, limit = 1;
  void Append(int digit, int base) { value = value * base + digit, limit *= base; }
};

// The index of a rank's group, and the rank's index within the group.
struct Key {
  Number group, place;
};

Key KeyOf(const MeshShape& shape, MeshGroup along, const MeshPlace& at) {
  const std::vector<Axis> axes = AxesOf(along);
  Key key;
  const auto append = [&key](bool inside, int digit, int base) {
    (inside ? key.place : key.group).Append(digit, base);
  };
  // dp counts islands, then runs of ep ranks in an island, then the ranks of a run.
  const int island = shape.dp / shape.islands;
  const bool all = along == MeshGroup::kDp || along == MeshGroup::kBatch, replicas = along == MeshGroup::kReplicas;
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    if (axis != Axis::kDp) {
      append(std::find(axes.begin(), axes.end(), axis) != axes.end(), at.at(axis), shape.extent(axis));
      continue;
    }
    append(all || along == MeshGroup::kIslands, at.dp / island, shape.islands);
    append(all || replicas || along == MeshGroup::kExpertReplicas, at.dp % island / shape.ep, island / shape.ep);
    append(all || replicas || along == MeshGroup::kEp, at.dp % shape.ep, shape.ep);
  }
  return key;
}

}  // namespace

std::string_view AxisName(Axis axis) {
  constexpr std::array<std::string_view, 5> kNames = {"pp", "dp", "cp", "tp", "ep"};
  return kNames[static_cast<size_t>(axis)];
}

std::string_view MeshGroupName(MeshGroup along) {
  constexpr std::array<std::string_view, 10> kNames = {
      "pp", "dp", "cp", "tp", "ep", "replicas", "expert replicas", "model", "islands", "batch"};
  return kNames[static_cast<size_t>(along)];
}

int MeshShape::extent(Axis axis) const {
  switch (axis) {
    case Axis::kPp: return pp;
    case Axis::kDp: return dp;
    case Axis::kCp: return cp;
    case Axis::kTp: return tp;
    case Axis::kEp: return ep;
  }
  return 1;
}

int MeshPlace::at(Axis axis) const {
  switch (axis) {
    case Axis::kPp: return pp;
    case Axis::kDp: return dp;
    case Axis::kCp: return cp;
    case Axis::kTp: return tp;
    case Axis::kEp: break;
  }
  TWOFOLD_CHECK(false, "ep is not an axis of the grid");
  return 0;
}

absl::StatusOr<std::array<Axis, kGridAxes>> ParseMeshOrder(std::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ' ', absl::SkipEmpty());
  std::array<Axis, kGridAxes> order{};
  size_t found = 0;
  for (const std::string& word : words) {
    size_t a = 0;
    while (a < kGridAxes && AxisName(static_cast<Axis>(a)) != word) ++a;
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(found);
    if (a == kGridAxes || found == kGridAxes || std::find(order.begin(), end, static_cast<Axis>(a)) != end) {
      found = 0;
      break;
    }
    order[found++] = static_cast<Axis>(a);
  }
  if (found == kGridAxes) return order;
  return InvalidArgument("must list pp, dp, cp and tp once each, outermost first, such as \"pp dp cp tp\" (got \"",
                         text, "\")");
}

absl::Status CheckMesh(const MeshShape& shape, int world_size) {
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp, Axis::kEp}) {
    if (shape.extent(axis) < 1) {
      return InvalidArgument("parallel.", AxisName(axis), " must be at least 1 (got ", shape.extent(axis), ")");
    }
  }
  if (shape.dp % shape.ep != 0) {
    return InvalidArgument("parallel.ep must divide parallel.dp (ep is ", shape.ep, ", dp is ", shape.dp, ")");
  }
  if (shape.islands < 1 || shape.dp % shape.islands != 0 || shape.dp / shape.islands % shape.ep != 0) {
    return InvalidArgument("parallel.islands must divide parallel.dp into parts that parallel.ep divides (islands is ",
                           shape.islands, ", dp is ", shape.dp, ", ep is ", shape.ep, ")");
  }
  const int64_t size = int64_t{shape.pp} * shape.dp * shape.cp * shape.tp;
  if (size == world_size) return absl::OkStatus();
  return InvalidArgument("parallel: pp * dp * cp * tp = ", shape.pp, " * ", shape.dp, " * ", shape.cp, " * ", shape.tp,
                         " = ", size, ", but there are ", world_size, " ranks");
}

MeshPlace PlaceOf(const MeshShape& shape, int rank) {
  MeshPlace place;
  for (size_t a = kGridAxes; a-- > 0;) {
    const Axis axis = shape.order[a];
    const int extent = shape.extent(axis), here = rank % extent;
    rank /= extent;
    (axis == Axis::kPp ? place.pp : axis == Axis::kDp ? place.dp : axis == Axis::kCp ? place.cp : place.tp) = here;
  }
  return place;
}

int RankAt(const MeshShape& shape, const MeshPlace& place) {
  int rank = 0;
  for (const Axis axis : shape.order) rank = rank * shape.extent(axis) + place.at(axis);
  return rank;
}

GroupList GroupsOf(const MeshShape& shape, MeshGroup along) {
  GroupList groups;
  for (int r = 0; r < shape.size(); ++r) {
    const Key key = KeyOf(shape, along, PlaceOf(shape, r));
    groups.resize(static_cast<size_t>(key.group.limit));
    std::vector<int>& group = groups[static_cast<size_t>(key.group.value)];
    group.resize(static_cast<size_t>(key.place.limit));
    group[static_cast<size_t>(key.place.value)] = r;
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::shared_ptr<const MeshGroups> AllGroupsOf(const MeshShape& shape) {
  static std::mutex mutex;
  static auto* const known = new std::vector<std::pair<MeshShape, std::weak_ptr<const MeshGroups>>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [of, groups] : *known) {
    if (of == shape) return groups.lock();
  }
  auto all = std::make_shared<MeshGroups>();
  for (size_t k = 0; k < kMeshGroups; ++k) {
    auto own = std::make_shared<const GroupList>(GroupsOf(shape, static_cast<MeshGroup>(k)));
    const auto same = std::find_if(all->begin(), all->begin() + static_cast<std::ptrdiff_t>(k),
                                   [&](const auto& g) { return *g == *own; });
    (*all)[k] = same != all->begin() + static_cast<std::ptrdiff_t>(k) ? *same : std::move(own);
  }
  known->emplace_back(shape, all);
  return all;
}

namespace {

const MeshShape& Checked(const MeshShape& shape, int world_size) {
  const absl::Status fits = CheckMesh(shape, world_size);
  TWOFOLD_CHECK(fits.ok(), std::string(fits.message()));
  return shape;
}

}  // namespace

DeviceMesh::DeviceMesh(ProcessGroup& world, const MeshShape& shape)
    : world_(world),
      shape_(Checked(shape, world.size())),
      lists_(AllGroupsOf(shape)),
      place_(PlaceOf(shape, world.rank())) {
  std::map<const GroupList*, ProcessGroup*> made;
  for (size_t k = 0; k < kMeshGroups; ++k) {
    const GroupList& groups = *(*lists_)[k];
    ProcessGroup*& group = made[&groups];
    if (group == nullptr && groups.size() == 1 && std::is_sorted(groups[0].begin(), groups[0].end())) group = &world;
    if (group == nullptr) {
      owned_.push_back(world.Partition(groups, std::string(MeshGroupName(static_cast<MeshGroup>(k)))));
      group = owned_.back().get();
    }
    groups_[k] = group;
  }
}

std::unique_ptr<ProcessGroup> DeviceMesh::NewGroup(MeshGroup along, std::string name) {
  return world_.Partition(ListOf(along), std::move(name));
}

std::unique_ptr<ProcessGroup> DeviceMesh::NewGroups(const GroupList& groups, std::string name) {
  return world_.Partition(groups, std::move(name));
}

int DeviceMesh::Coordinate(Axis axis) const { return axis == Axis::kEp ? place_.dp % shape_.ep : place_.at(axis); }

}  // namespace twofold
