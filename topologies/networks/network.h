// What the networks of ports share. A port is where a NIC plugs in (or a device, where there are no NICs); ports are the
// endpoints, and the first vertices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct Wiring {
  BytesPerSecond bandwidth{25e9};  // of a cable, each way
  Seconds cable{0};                // of one cable
  Seconds switching{0};            // of passing one switch (or router)
  Seconds nic{0};                  // of each NIC, the sender's and the receiver's: on the links that leave and reach a port
};

// The checks of all builders: the message starts with the field as cluster.proto calls it ("radix = 1: ...").
absl::Status Check(const Wiring& wiring);
absl::Status CheckNoNic(const Wiring& wiring);  // for networks whose ports are their routers
absl::Status CheckAtLeast(std::string_view field, int64_t value, int64_t least);

// The most ports and cables of one network: links are numbered by int.
inline constexpr int64_t kMostPorts = 1 << 20, kMostCables = 1 << 26;
absl::Status CheckCables(std::string_view field, int64_t value, int64_t cables);

// The largest divisor of `cables` so that `each` of so many cables find room on a switch of `radix`; 1 where none does: how
// many cables of one lower switch an upper switch takes, so that there are as few upper ones as can be.
int Bundle(int cables, int each, int radix);

// A network under construction and its lists: derived classes add vertices and cables and number their routes.
class PortNetwork : public Topology {
 public:
  int endpoints() const override { return ports_; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  int GroupOf(int endpoint) const override { return vertices_[static_cast<size_t>(endpoint)].group; }

 protected:
  PortNetwork(int ports, const Wiring& wiring) : ports_(ports), wiring_(wiring) {}

  void Reserve(int64_t vertices, int64_t cables);
  void AddPort(int port, int group) { vertices_.push_back({Vertex::kDevice, NameOf("p", port), port, group}); }
  // Returns its vertex.
  int AddSwitch(std::string name, int group, int level);
  // Links a->b and b->a; returns the first's number, the second's is one more. Latency: of the cable, and of the switch
  // that a link leaves or the NIC of the port that it leaves or reaches.
  int AddPortCable(int port, int to_switch, BytesPerSecond bandwidth);
  // `number`: of the cable among several between the two, so that all links have names of their own; -1: it is the only one.
  int AddSwitchCable(int a, int b, BytesPerSecond bandwidth, Seconds cable, int number = -1);
  static std::string NameOf(std::string_view what, int number);

  const int ports_;
  const Wiring wiring_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

}  // namespace twofold
