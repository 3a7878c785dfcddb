#include "sim/zone.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

#include "core/base/check.h"
#include "simgrid/kernel/routing/NetPoint.hpp"
#include "simgrid/kernel/routing/NetZoneImpl.hpp"

namespace twofold::sim {
namespace {

using simgrid::kernel::routing::NetPoint;
using simgrid::kernel::routing::NetZoneImpl;

// Bytes are counted in units this small inside SimGrid, whose payloads are whole numbers: part sizes such as n/N need
// fractions of a byte.
constexpr double kUnitsPerByte = 1 << 16;

// A zone that is never sealed, so that it takes links while the simulation runs. No route leads through it.
class Links : public NetZoneImpl {
 public:
  explicit Links(const NetZoneImpl& root) : NetZoneImpl("links") { set_network_model(root.get_network_model()); }
  void get_local_route(const NetPoint*, const NetPoint*, simgrid::kernel::routing::Route*, double*) override {}
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}
};

}  // namespace

class Platform::Zone : public NetZoneImpl {
 public:
  explicit Zone(const Topology& topology) : NetZoneImpl("topology"), topology_(topology), links_(topology.links().size()) {}

  // SimGrid answers actors in the order in which they asked, and asks for a flow's route as it answers: first come, first
  // served.
  void Expect(const std::vector<int>& links) { chosen_.push_back(&links); }

  void get_local_route(const NetPoint*, const NetPoint*, simgrid::kernel::routing::Route* into, double*) override {
    TWOFOLD_CHECK(!chosen_.empty(), "flows start by Platform::Start alone");
    for (int link : *chosen_.front()) into->link_list_.push_back(Made(static_cast<size_t>(link)));
    chosen_.pop_front();
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}

 private:
  simgrid::kernel::resource::StandardLinkImpl* Made(size_t link) {
    if (made_ == nullptr) made_ = new Links(*this);  // SimGrid keeps what is in it to the end of the process
    if (links_[link] == nullptr) {
      const double bandwidth = topology_.links()[link].bandwidth.value() * kUnitsPerByte;
      links_[link] = made_->create_link(std::to_string(link), {bandwidth})->set_latency(0)->seal()->get_impl();
    }
    return links_[link];
  }

  const Topology& topology_;
  Links* made_ = nullptr;
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links_;  // null: no flow has taken it yet
  std::deque<const std::vector<int>*> chosen_;  // of flows that are about to start, in order
};

Platform::Platform(const Topology& topology) : zone_(new Zone(topology)) {
  from_ = zone_->get_iface()->create_host("from", 1.0);
  to_ = zone_->get_iface()->create_host("to", 1.0);
  zone_->get_iface()->seal();
}

simgrid::s4u::CommPtr Platform::Start(const std::vector<int>& links, double bytes, double rate) {
  const auto units = static_cast<uint64_t>(std::max(1.0, bytes * kUnitsPerByte + 0.5));
  simgrid::s4u::CommPtr flow = simgrid::s4u::Comm::sendto_init(from_, to_)->set_payload_size(units);
  if (std::isfinite(rate)) flow->set_rate(rate * kUnitsPerByte);
  zone_->Expect(links);
  return flow->start();
}

}  // namespace twofold::sim
