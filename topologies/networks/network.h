// The common part of all networks of ports. A port is where a NIC plugs in (or a device, if there are no NICs). Ports
// are the endpoints and the first vertices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "topologies/graph/on_demand.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct Wiring {
  BytesPerSecond bandwidth{25e9};  // of a cable, each way
  Seconds cable{0};                // latency of one cable
  Seconds switching{0};            // latency of one switch (or router)
  Seconds nic{0};  // latency of a NIC: added to links that leave a port (sender) or reach one (receiver)
};

// Checks that all builders share. The message starts with the field's name in cluster.proto ("radix = 1: ...").
absl::Status Check(const Wiring& wiring);
absl::Status CheckNoNic(const Wiring& wiring);  // for networks whose ports are their routers
absl::Status CheckAtLeast(std::string_view field, int64_t value, int64_t least);

// Limits of one network: links are numbered by int.
inline constexpr int64_t kMostPorts = 1 << 20, kMostCables = 1 << 26;
absl::Status CheckCables(std::string_view field, int64_t value, int64_t cables);

// The number of cables that join one lower switch to an upper switch, chosen so that there are as few upper switches as
// possible: the largest divisor of `cables` such that `each` bundles of that size fit on a switch of `radix`; 1 if none
// does.
int Bundle(int cables, int each, int radix);

// A network under construction. Derived classes add vertices and cables and number their routes.
class PortNetwork : public Topology {
 public:
  int endpoints() const override { return ports_; }
  const std::vector<Vertex>& vertices() const override {
    listed_.Ensure();
    return vertices_;
  }
  const std::vector<Link>& links() const override {
    listed_.Ensure();
    return links_;
  }
  int GroupOf(int endpoint) const override { return vertices()[static_cast<size_t>(endpoint)].group; }

 protected:
  // `list` adds vertices and cables when they are first asked for; null: the derived class's constructor adds them.
  PortNetwork(int ports, const Wiring& wiring, std::function<void()> list = nullptr)
      : ports_(ports), wiring_(wiring), listed_(std::move(list)) {}

  void Reserve(int64_t vertices, int64_t cables);
  void AddPort(int port, int group) { vertices_.push_back({Vertex::kDevice, NameOf("p", port), port, group}); }
  // Returns the switch's vertex.
  int AddSwitch(std::string name, int group, int level);
  // Adds the links a->b and b->a. Returns the number of the first; the second has the next number. The latency is that
  // of the cable plus that of the switch that a link leaves or of the NIC of the port that it leaves or reaches.
  int AddPortCable(int port, int to_switch, BytesPerSecond bandwidth);
  // `number` distinguishes several cables between the same two switches, so that link names are unique; -1: the only
  // cable.
  int AddSwitchCable(int a, int b, BytesPerSecond bandwidth, Seconds cable, int number = -1);
  static std::string NameOf(std::string_view what, int number);
  // Latencies of links from a port, to a port, and between switches.
  Seconds UpLatency() const { return wiring_.nic + wiring_.cable; }
  Seconds DownLatency() const { return wiring_.switching + wiring_.cable + wiring_.nic; }
  Seconds SwitchLatency(Seconds cable) const { return wiring_.switching + cable; }

  const int ports_;
  const Wiring wiring_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;

 private:
  const OnDemand listed_;
};

}  // namespace twofold
