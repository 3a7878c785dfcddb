// SimGrid's part of a topology: one custom network zone serves every topology, and flows take the links they are told.
//
// SimGrid asks for the route of two hosts when a flow between them starts. Here all flows are between the same two hosts;
// which links each of them takes was chosen before. Only links that flows take are ever made.
#pragma once

#include <vector>

#include "simgrid/s4u.hpp"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// One a process, made after SimGrid's engine and not after its end. For the one thread that simulates.
class Platform {
 public:
  // The topology must outlive the platform. Links have no latency in SimGrid: phases sleep through theirs (schedule.h).
  explicit Platform(const Topology& topology);

  simgrid::s4u::Host* host() const { return from_; }  // where actors live

  // Starts `bytes` (above 0) along `links` (one or more, which stay until this has returned), at no more than `rate` bytes a
  // second. For actors; others may run before it returns.
  simgrid::s4u::CommPtr Start(const std::vector<int>& links, double bytes, double rate);

 private:
  class Zone;
  Zone* zone_;  // SimGrid's
  simgrid::s4u::Host *from_, *to_;
};

}  // namespace twofold::sim
