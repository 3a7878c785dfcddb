// Flows that begin and end at any time and share the links with all other flows: max-min fair at every moment
// (fluid.h).
//
// Flows that begin together form a bundle. It is solved once, as if it were alone, into steps: moments at which its
// flows' rates change. Active bundles run through their steps. As long as no link is overloaded, that is the exact
// answer: every flow is limited by its own rate or by a link that its own bundle fills. No other bundle can then be on
// that link, so rates that are fair for each bundle alone are fair for all. If a step would overload a link, the
// bundles that meet there are merged into one: the rest of their flows is solved anew.
//
// Cost: for a bundle that meets no other, a few additions per step for each link it crosses; for a meeting, one
// solution of the merged flows.
//
// Assumes and ignores the same as fluid.h. This file does not know ranks, actors or SimGrid; the caller provides clock
// and timers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sim/fluid.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class Flows {
 public:
  // A flow of more than 0 bytes, over at least one link or with a limit; `rate`: its maximum, in bytes per second.
  // Parts with the same lot number (from 0) are waited for together.
  struct Part {
    std::vector<int> links;
    double bytes;
    double rate;
    int lot = 0;
  };
  class Bundle;
  using BundlePtr = std::shared_ptr<const Bundle>;

  // `at(time, fn)` calls fn when `now()` reaches `time`; at once if it has.
  using At = std::function<void(double time, std::function<void()> fn)>;
  Flows(const Topology& topology, std::function<double()> now, At at);
  ~Flows();

  // Solves flows that begin together. The bundle may be started many times.
  BundlePtr Solve(std::vector<Part> parts);
  // Starts the bundle now. `done` is called when its last flow has ended, with the time at which the first lot ended.
  // The bundle must not be empty.
  using Done = std::function<void(double first)>;
  void Begin(BundlePtr bundle, Done done);

  // How often bundles met and were merged and solved anew.
  int64_t meetings() const { return meetings_; }

 private:
  struct Owner;  // the original bundle of flows that were merged with others
  struct Active {
    BundlePtr bundle;
    double begin;
    Done done;                                        // for the whole bundle, while it has met no other
    std::vector<std::shared_ptr<Owner>> owners = {};  // by flow, after a merge
    size_t next = 0;                                  // step
  };
  using Actives = std::map<uint64_t, Active>;
  void Take(uint64_t number);
  void Meet(uint64_t number, std::vector<int> full);
  std::vector<int> Overfull(const Bundle& bundle, size_t step) const;
  void Release(const Active& active);  // on the links that it crosses

  const std::function<double()> now_;
  const At at_;
  std::vector<double> bandwidths_, loads_;  // by link
  std::vector<int> users_;                  // by link: number of active bundles that cross it
  std::vector<int> local_;                  // by link: its number within the bundle that is being solved, or -1
  Actives actives_;
  uint64_t next_ = 0;
  int64_t meetings_ = 0;
};

}  // namespace twofold::sim
