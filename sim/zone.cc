#include "sim/zone.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <string>

#include "core/base/check.h"
#include "core/base/zeros.h"
#include "simgrid/kernel/routing/NetPoint.hpp"
#include "simgrid/kernel/routing/NetZoneImpl.hpp"

namespace twofold::sim {
namespace {

using simgrid::kernel::routing::NetPoint;
using simgrid::kernel::routing::NetZoneImpl;

// SimGrid's payloads are integers, so bytes are counted in units this small: part sizes such as n/N need fractions of a
// byte.
constexpr double kUnitsPerByte = 1 << 16;

// A zone that is never sealed, so that links can be added while the simulation runs. No route leads through it.
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
  explicit Zone(const Topology& topology)
      : NetZoneImpl("topology"), topology_(topology), links_(topology.link_count()) {}
  ~Zone() override { delete made_; }  // nothing else would, and it keeps the network model, with all its memory

  // SimGrid answers actors in the order of their requests and asks for a flow's route when it answers, so a FIFO queue
  // matches routes to flows.
  void Expect(const std::vector<int>& links, double rate, int parts) { chosen_.push_back({&links, rate, parts}); }

  void get_local_route(const NetPoint*, const NetPoint*, simgrid::kernel::routing::Route* into, double*) override {
    TWOFOLD_CHECK(!chosen_.empty(), "flows are started only by Platform::Start");
    const auto [links, rate, parts] = chosen_.front();
    chosen_.pop_front();
    for (int link : *links)
      into->link_list_.insert(into->link_list_.end(), static_cast<size_t>(parts), Made(static_cast<size_t>(link)));
    if (std::isfinite(rate)) into->link_list_.push_back(Limit(rate));
  }
  void get_graph(const s_xbt_graph_t*, std::map<std::string, xbt_node_t, std::less<>>*,
                 std::map<std::string, xbt_edge_t, std::less<>>*) override {}

 private:
  using LinkImpl = simgrid::kernel::resource::StandardLinkImpl;
  LinkImpl* Made(size_t link) {
    if (links_[link] == nullptr)
      links_[link] =
          New(std::to_string(link), topology_.RatesOf(static_cast<int>(link)).bandwidth.value())->seal()->get_impl();
    return links_[link];
  }
  // SimGrid 3.32 ignores the rate of a flow between hosts. A FATPIPE link, which gives each flow its full bandwidth,
  // limits them instead.
  LinkImpl* Limit(double rate) {
    LinkImpl*& limit = limits_[rate];
    if (limit == nullptr) {
      limit = New("limit" + std::to_string(limits_.size()), rate)
                  ->set_sharing_policy(simgrid::s4u::Link::SharingPolicy::FATPIPE)
                  ->seal()
                  ->get_impl();
    }
    return limit;
  }
  simgrid::s4u::Link* New(const std::string& name, double bandwidth) {
    if (made_ == nullptr) made_ = new Links(*this);
    return made_->create_link(name, {bandwidth * kUnitsPerByte})->set_latency(0);
  }

  const Topology& topology_;
  Links* made_ = nullptr;
  Zeros<LinkImpl*> links_;              // null: not used by a flow yet
  std::map<double, LinkImpl*> limits_;  // by rate
  struct Chosen {
    const std::vector<int>* links;
    double rate;
    int parts;
  };
  std::deque<Chosen> chosen_;  // of flows that are about to start, in order
};

Platform::Platform(const Topology& topology) : zone_(new Zone(topology)) {
  from_ = zone_->get_iface()->create_host("from", 1.0);
  to_ = zone_->get_iface()->create_host("to", 1.0);
  zone_->get_iface()->seal();
}

// SimGrid knows no weights, but a flow takes so much more of a link that its route lists more than once. So the flow is
// one of its parts, and takes of each link what all of them need.
simgrid::s4u::CommPtr Platform::Start(const std::vector<int>& links, double bytes, double rate, int parts) {
  const auto units = static_cast<uint64_t>(std::max(1.0, bytes / parts * kUnitsPerByte + 0.5));
  simgrid::s4u::CommPtr flow = simgrid::s4u::Comm::sendto_init()->set_payload_size(units);
  zone_->Expect(links, rate / parts, parts);
  flow->set_source(from_)->set_destination(to_);  // starts it, because nothing is missing any more
  return flow;
}

}  // namespace twofold::sim
