// Flows that come and go, and share the links with all that is under way: max-min at every moment, as fluid.h has it.
//
// Flows that begin together are a bundle, which is solved once, as if it were alone, into steps: moments at which its flows'
// rates change. Bundles under way go through their steps. As long as no link is given more than it has, that is the answer:
// every flow is held back by its own limit or by a link that its own bundle fills, on which nobody else can then be, so what is
// fair for each bundle alone is fair for all. A step that would give a link more than it has makes one bundle of those that meet
// there: what is left of their flows, solved anew.
//
// Cost: a bundle nobody meets, a few additions for each link it crosses, at each of its steps; a meeting, solving what meets.
//
// Assumes and ignores what fluid.h does. Ranks, actors and SimGrid are not known here; time is whoever's who runs the timers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/fluid.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class Flows {
 public:
  // Bytes above 0, over one link or more, or with a limit; `rate`: the most it moves, bytes a second. Parts of one lot (numbered
  // from 0) are waited for together.
  struct Part { std::vector<int> links; double bytes; double rate; int lot = 0; };
  class Bundle;
  using BundlePtr = std::shared_ptr<const Bundle>;

  // `at(time, fn)` calls fn when `now()` has come to `time`; at once if it has.
  using At = std::function<void(double time, std::function<void()> fn)>;
  Flows(const Topology& topology, std::function<double()> now, At at);
  ~Flows();

  // Flows that begin together. May be begun many times.
  BundlePtr Solve(std::vector<Part> parts);
  // They begin now; `done` is called when the last of them has ended, and told when the first lot had. Not of none.
  using Done = std::function<void(double first)>;
  void Begin(BundlePtr bundle, Done done);

  // How often bundles met and were solved anew.
  int64_t meetings() const { return meetings_; }

 private:
  struct Owner;  // of flows that have met others
  struct Active {
    BundlePtr bundle;
    double begin;
    Done done;                                        // of all, while they have met nobody
    std::vector<std::shared_ptr<Owner>> owners = {};  // by flow, once they have
    size_t next = 0;  // step
  };
  using Actives = std::map<uint64_t, Active>;
  void Take(uint64_t number);
  void Meet(uint64_t number, std::vector<int> full);
  std::vector<int> Overfull(const Bundle& bundle, size_t step) const;
  void Release(const Active& active);  // the links it crosses

  const std::function<double()> now_;
  const At at_;
  std::vector<double> bandwidths_, loads_;  // by link
  std::vector<int> users_;                  // by link: bundles under way that cross it
  std::vector<int> local_;                  // by link: its number among those of a bundle that is being solved, -1
  Actives actives_;
  uint64_t next_ = 0;
  int64_t meetings_ = 0;
};

}  // namespace twofold::sim
