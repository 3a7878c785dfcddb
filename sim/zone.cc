#include "sim/zone.h"

#include <string>

#include "simgrid/kernel/routing/NetPoint.hpp"
#include "simgrid/kernel/routing/NetZoneImpl.hpp"

namespace twofold::sim {
namespace {

using simgrid::kernel::routing::NetPoint;

class TopologyZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit TopologyZone(const Topology& topology) : NetZoneImpl("topology"), topology_(topology) {}

  void AddLink(simgrid::s4u::Link* link) { links_.push_back(link->get_impl()); }

  void get_local_route(const NetPoint* from, const NetPoint* to, simgrid::kernel::routing::Route* into,
                       double*) override {
    const Pair pair{static_cast<int>(from->id()), static_cast<int>(to->id())};
    topology_.Route(pair, topology_.DefaultRoute(pair), route_);
    for (int link : route_) into->link_list_.push_back(links_[static_cast<size_t>(link)]);
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}

 private:
  const Topology& topology_;
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links_;
  std::vector<int> route_;
};

}  // namespace

std::vector<simgrid::s4u::Host*> BuildPlatform(const Topology& topology) {
  auto* zone = new TopologyZone(topology);  // SimGrid owns it
  simgrid::s4u::NetZone* iface = zone->get_iface();
  std::vector<simgrid::s4u::Host*> hosts;
  for (int e = 0; e < topology.endpoints(); ++e) hosts.push_back(iface->create_host("e" + std::to_string(e), 1.0));
  for (const Link& link : topology.links()) {
    zone->AddLink(iface->create_link(link.name, link.bandwidth.value() * kUnitsPerByte)->set_latency(0)->seal());
  }
  iface->seal();
  return hosts;
}

}  // namespace twofold::sim
