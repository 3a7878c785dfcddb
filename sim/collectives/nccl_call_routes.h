// The routes of one NCCL call, and what the hops of their phases take together.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

// The kinds of hops of a phase, if these are few.
struct NcclHopKinds {
  std::shared_ptr<const FlowPattern> pattern = nullptr;  // null: they are many
  std::vector<NcclHop> hops = {};                        // one of each kind
};

// What a phase's hops take together.
struct NcclPhaseSums {
  NcclPhaseSums(const std::vector<NcclHop>& hops, const Places& places);
  NcclPhaseSums(const NcclHopKinds& kinds, const Places& places);  // the same, by kind

  // The largest share of the data that a device sends or receives within its node, and that a NIC sends or receives. If
  // pairs have different links, `device` is the load of one link, scaled as if it were as wide as
  // Places::node_bandwidth.
  struct Load {
    double device = 0, nic = 0;
  };
  Load busiest;
  std::array<double, 2> crossings = {}, most_share = {};  // in a node, between nodes
};

// The routes of one call, made when they are first asked for: among thousands of ranks each is large. Those of
// collectives depend on neither bytes nor protocol; they are kept with the places, for the next call.
class NcclCallRoutes {
 public:
  NcclCallRoutes(const CollectiveShape& shape, const Places& places) : shape_(shape), places_(places) {}
  struct Made {
    NcclRoute route;
    std::vector<NcclHopKinds> kinds = {};  // by phase; none: hops are not told apart by kind
    std::vector<int> last_phase = {};      // as Schedule::last_phase; only if kept
    bool kept = true;                      // else the call may take the hops out of it
    std::vector<NcclPhaseSums> sums = {};  // empty: nobody has asked
    bool by_kind() const;
    const std::vector<NcclPhaseSums>& SumsOf(const Places& places);  // by phase; few calls ask for it
  };
  // Null: the algorithm has none for this call.
  Made* Of(NcclAlgorithm a) {
    absl::StatusOr<std::shared_ptr<Made>>& made = made_[static_cast<size_t>(a)];
    if (made.status() == NotYet()) made = Make(a);
    return made.ok() ? made->get() : nullptr;
  }
  absl::Status WhyNot(NcclAlgorithm a) {
    return Of(a) != nullptr ? absl::OkStatus() : made_[static_cast<size_t>(a)].status();
  }

 private:
  using Key = std::tuple<NcclAlgorithm, Communication::Kind, int>;  // and root
  struct Kept {
    std::map<Key, std::shared_ptr<Made>> routes;
    std::vector<NcclHop> storage;  // of hops that are no longer needed
  };
  static constexpr size_t kMostKept = 8;
  static absl::Status NotYet() { return absl::UnknownError(""); }

  absl::StatusOr<std::shared_ptr<Made>> Make(NcclAlgorithm a) const;
  std::shared_ptr<Made> Keep(const Key& key, std::shared_ptr<Made> made) const;

  const CollectiveShape& shape_;
  const Places& places_;
  std::array<absl::StatusOr<std::shared_ptr<Made>>, kNcclAlgorithms.size()> made_;  // unknown: not yet
};

}  // namespace twofold::sim
