#include "core/comm/device_mesh.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace twofold {
namespace {

// One digit of a rank, which is a number in mixed radix. In the order of digits, the ranks of a group are ordered.
struct Digit {
  bool inside;  // differs within a group
  int base, stride;
};

std::vector<Digit> DigitsOf(const MeshShape& shape, MeshGroup along) {
  const auto stride = [&shape](Axis axis) {
    int ranks = 1;
    for (size_t a = kGridAxes; a-- > 0 && shape.order[a] != axis;) ranks *= shape.extent(shape.order[a]);
    return ranks;
  };
  const bool batch = along == MeshGroup::kBatch, replicas = along == MeshGroup::kReplicas,
             experts = along == MeshGroup::kExpertReplicas, model = along == MeshGroup::kModel;
  // dp counts islands, then runs of ep ranks in an island, then the ranks of a run.
  const bool all = along == MeshGroup::kDp || batch;
  const int island = shape.dp / shape.islands, dp = stride(Axis::kDp);
  return {
      {along == MeshGroup::kPp || model, shape.pp, stride(Axis::kPp)},
      {all || along == MeshGroup::kIslands, shape.islands, dp * island},
      {all || replicas || experts, island / shape.ep, dp * shape.ep},
      {all || replicas || along == MeshGroup::kEp, shape.ep, dp},
      {along == MeshGroup::kCp || batch || replicas || experts, shape.cp, stride(Axis::kCp)},
      {along == MeshGroup::kTp || model, shape.tp, stride(Axis::kTp)},
  };
}

// All numbers that these digits can make, the first digit most significant.
std::vector<int> NumbersOf(const std::vector<Digit>& digits) {
  std::vector<int> numbers = {0}, longer;
  for (const Digit& digit : digits) {
    longer.clear(), longer.reserve(numbers.size() * static_cast<size_t>(digit.base));
    for (const int number : numbers) {
      for (int d = 0; d < digit.base; ++d) longer.push_back(number + d * digit.stride);
    }
    std::swap(numbers, longer);
  }
  return numbers;
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
  std::vector<Digit> inside, outside;
  for (const Digit& digit : DigitsOf(shape, along)) (digit.inside ? inside : outside).push_back(digit);
  std::sort(outside.begin(), outside.end(), [](const Digit& a, const Digit& b) {
    return std::pair(a.stride, a.base) > std::pair(b.stride, b.base);  // then first ranks ascend
  });
  const std::vector<int> places = NumbersOf(inside), firsts = NumbersOf(outside);
  GroupList groups;
  groups.reserve(firsts.size());
  for (const int first : firsts) {
    std::vector<int>& group = groups.emplace_back();
    group.reserve(places.size());
    for (const int place : places) group.push_back(first + place);
  }
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
  std::vector<std::vector<bool>> differ;  // by kind: for the digits that are not always 0, whether they do in a group
  for (size_t k = 0; k < kMeshGroups; ++k) {
    std::vector<bool> own;
    for (const Digit& digit : DigitsOf(shape, static_cast<MeshGroup>(k)))
      if (digit.base > 1) own.push_back(digit.inside);
    const auto same = std::find(differ.begin(), differ.end(), own) - differ.begin();
    (*all)[k] = static_cast<size_t>(same) < k
                    ? (*all)[static_cast<size_t>(same)]
                    : std::make_shared<const GroupList>(GroupsOf(shape, static_cast<MeshGroup>(k)));
    differ.push_back(std::move(own));
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
