// The SimGrid side of a topology: one custom network zone serves every topology, and each flow uses the links it is
// given.
//
// SimGrid asks for the route between two hosts when a flow between them starts. Here all flows are between the same two
// hosts; the links of each flow were chosen before. Only links that some flow uses are created.
#pragma once

#include <vector>

#include "simgrid/s4u.hpp"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// One per process, created after SimGrid's engine and not after the engine's end. Used only by the simulating thread.
class Platform {
 public:
  // The topology must outlive the platform. Links have no latency in SimGrid: phases sleep through theirs (schedule.h).
  explicit Platform(const Topology& topology);

  simgrid::s4u::Host* host() const { return from_; }  // where actors live

  // Starts `bytes` (above 0) along `links` (at least one; they must live until this returns), at no more than `rate`
  // bytes per second, with as much of each link as `parts` flows. For actors; others may run before it returns.
  simgrid::s4u::CommPtr Start(const std::vector<int>& links, double bytes, double rate, int parts = 1);

 private:
  class Zone;
  Zone* zone_;  // owned by SimGrid
  simgrid::s4u::Host *from_, *to_;
};

}  // namespace twofold::sim
