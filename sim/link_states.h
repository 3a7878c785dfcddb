// What flows of a few sizes bring upon links, of which millions are crossed and most carry like others.
//
// A link's load is the number of a state: its bandwidth, and how many flows of each size cross it. A flow moves each of
// its links to the next state, which is looked up in a small table. A crossing so costs one integer of the link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/zeros.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// What flows bring upon a link.
struct LinkUse {
  double bandwidth;
  double bytes, most, least;  // of all flows; of one part of one of them
  int64_t count;              // of parts; a part counts each time that it crosses the link
};

class LinkStates {
 public:
  static constexpr size_t kMostSizes = 8;
  explicit LinkStates(const Topology& topology)  // which must outlive this
      : topology_(topology), of_(topology.link_count()), rates_(topology.link_count()) {}
  // No link carries anything. `sizes`: the bytes that flows have, each once, at most kMostSizes.
  void Start(std::vector<double> sizes);
  // A flow of one of the sizes crosses these links.
  void Cross(std::span<const int> links, double bytes);
  // What the links that were crossed carry, each different load once. Flows of the same kinds with other sizes have the
  // same loads, as long as kinds of one size have one size.
  using Counts = std::array<int, kMostSizes>;  // flows by size
  struct Load {
    double bandwidth;
    Counts flows;
  };
  std::vector<Load> Loads() const;

 private:
  struct State {
    double bandwidth;
    Counts flows = {};
    Counts next = {};  // the state with one flow more; 0: not known yet
    int links = 0;     // that are in it
  };
  int Find(double bandwidth, const Counts& flows);
  int Empty(int link);
  int After(int state, size_t size);

  const Topology& topology_;
  Zeros<int> of_;             // by link; 0: nothing has crossed it
  std::vector<int> crossed_;  // links
  std::vector<double> sizes_;
  size_t last_ = 0;            // the size of the last flow
  std::vector<State> states_;  // the first one stands for none
  Zeros<int> rates_;           // by link: the place of its bandwidth in bandwidths_, plus 1; 0: nobody has asked
  std::vector<double> bandwidths_;
  std::vector<int> empty_;  // by bandwidth: the state without flows; 0: none yet
  absl::flat_hash_map<std::pair<double, Counts>, int> known_;
};

LinkUse UseOf(const LinkStates::Load& load, std::span<const double> sizes);

}  // namespace twofold::sim
