#include "sim/collectives/nccl_routes.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_hops.h"

namespace twofold::sim {

NcclRoute Listed(NcclRoute route) {
  const auto list = [](const auto& flows, const std::vector<NcclHop>& kinds, std::vector<NcclHop>& hops) {
    hops.reserve(flows.size());
    flows.List([&](int from, int to, int kind) {
      NcclHop& hop = hops.emplace_back(kinds[nccl_routes::At(kind)]);
      hop.from = from, hop.to = to;
    });
  };
  if (route.by_node != nullptr) list(*route.by_node, route.kinds, route.phases[0]);
  for (size_t p = 0; p < route.pairs.size(); ++p) list(*route.pairs[p].flows, route.pairs[p].kinds, route.phases[p]);
  route.by_node = nullptr, route.pairs.clear(), route.kinds.clear();
  return route;
}

absl::StatusOr<NcclRoute> MakeNcclRoute(NcclAlgorithm algorithm, const CollectiveShape& shape, const Places& places,
                                        std::vector<NcclHop> storage) {
  switch (algorithm) {
    case NcclAlgorithm::kTree: return nccl_routes::TreeRoute(shape, places, std::move(storage));
    case NcclAlgorithm::kNvls: return nccl_routes::NvlsRoute(false, shape, places);
    case NcclAlgorithm::kNvlsTree: return nccl_routes::NvlsRoute(true, shape, places);
    case NcclAlgorithm::kPat: return nccl_routes::PatRoute(shape, places, std::move(storage));
    case NcclAlgorithm::kDirect: return nccl_routes::DirectRoute(shape, places);
    case NcclAlgorithm::kRing: break;
  }
  switch (shape.kind) {
    case Communication::kAllReduce:
    case Communication::kAllGather:
    case Communication::kReduceScatter:
    case Communication::kBroadcast:
    case Communication::kReduce: return nccl_routes::RingRoute(shape, places, std::move(storage));
    default: return NoForm("ring", shape, "NCCL uses point-to-point messages for it; use direct");
  }
}

}  // namespace twofold::sim
