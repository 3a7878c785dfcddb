// A topology: vertices joined by directed links, and the routes between endpoints. It contains no simulator.
//
// A cable is two links, one each way. Endpoints are the devices on which ranks are placed; they are the first vertices.
// Between two endpoints there are minimal routes and, in some topologies, detours (non-minimal routes). Routes are
// numbered rather than listed, because a fat tree has thousands. A Router (routing.h) chooses the routes of a flow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace twofold {

struct Vertex {
  enum Kind { kDevice, kNic, kHost, kSwitch };
  Kind kind = kSwitch;
  std::string name;
  int node = -1;   // the node (server) that contains it; -1: the network between nodes
  int group = -1;  // the group of a dragonfly, the pod of a fat tree, the board of a HammingMesh; -1: none
  int level = 0;   // of switches: 0 next to the endpoints, then upwards; for drawings
};

enum class Medium { kMemory, kNvlink, kPcie, kNetwork };  // kNvlink: every direct link between devices (xGMI, ICI, C2C)
std::string_view MediumName(Medium medium);

struct Link {
  std::string name;
  BytesPerSecond bandwidth;
  Seconds latency{0};      // of the wire and of the vertex that the link leaves
  int from = -1, to = -1;  // vertices; -1 if the topology does not draw them
  Medium medium = Medium::kNetwork;
};

// What a link does to traffic: a Link without its name and its ends.
struct LinkRates {
  BytesPerSecond bandwidth;
  Seconds latency{0};
  Medium medium = Medium::kNetwork;
};

// Source and destination of traffic. `rail`: use NIC number `rail` of both nodes; -1: each endpoint uses its own
// (nearest) NIC.
struct Pair {
  int from, to;  // endpoints; must differ
  int rail = -1;
};

// Immutable once built; any thread may read it. Large topologies list their vertices and links, with names, when these
// are first asked for: among 100,000 devices there are a million. What moves traffic asks for RatesOf, which lists
// none.
class Topology {
 public:
  virtual ~Topology() = default;
  virtual std::string_view kind() const = 0;
  virtual int endpoints() const = 0;
  virtual const std::vector<Vertex>& vertices() const = 0;
  virtual const std::vector<Link>& links() const = 0;
  virtual size_t link_count() const { return links().size(); }
  virtual LinkRates RatesOf(int link) const {  // of links()[link]
    const Link& of = links()[static_cast<size_t>(link)];
    return {of.bandwidth, of.latency, of.medium};
  }

  // ---- Routes: numbers [0, MinimalRoutes) are minimal, [MinimalRoutes, MinimalRoutes + Detours) are not ----
  virtual int64_t MinimalRoutes(Pair) const { return 1; }
  virtual int64_t Detours(Pair) const { return 0; }
  // Replaces `route` by the indices of the links of route `number`, in order.
  virtual void Route(Pair pair, int64_t number, std::vector<int>& route) const = 0;
  // Appends the links of several routes to `links`, one route after another, and for each of them to `ends` the number
  // of links up to its end. The same as Route, for less.
  virtual void Routes(Pair pair, std::span<const int64_t> numbers, std::vector<int>& links,
                      std::vector<size_t>& ends) const;
  // All routes of a pair may begin with the same links, and end with the same: what lies between them is the routes of
  // `pair` in `network`, by the same numbers, whose links are counted from `first_link` on. Replaces `head` and `tail`.
  struct Middle {
    const Topology* network;
    Pair pair;
    int first_link;
  };
  virtual Middle MiddleOf(Pair pair, std::vector<int>& head, std::vector<int>& tail) const;
  // The route number used by deterministic routing, always minimal: d-mod-k in fat trees, dimension order on tori, ...
  virtual int64_t DefaultRoute(Pair) const { return 0; }
  // End-to-end latency of an empty message on the default route; default: the sum over its links.
  virtual Seconds Latency(Pair pair) const;
  // The latency without faults and jitter.
  virtual Seconds UsualLatency(Pair pair) const { return Latency(pair); }

  // ---- Where endpoints sit ----
  virtual int nodes() const { return endpoints(); }
  virtual int NodeOf(int endpoint) const { return endpoint; }
  virtual int rails() const { return 1; }       // NICs per node
  virtual int RailOf(int) const { return 0; }   // the endpoint's own NIC: its number in the node
  virtual int GroupOf(int) const { return 0; }  // as Vertex::group, for placement
  // Whether what happens on one rail of all nodes at once stands for the others. True only if
  // * endpoints and links are numbered node by node, equally many of each; links outside of nodes come last;
  // * a default route within a node crosses only links of the node. One between nodes begins with links of its first
  //   node, which depend on the device and the rail, and ends likewise. All of these are alike in every node;
  // * outside of nodes, let traffic k leave nodes on rail s_k and reach them on rail t_k, with different s_k, different
  //   t_k, and s_k = t_k for all k or for none. Then a one-to-one map takes the links of k = 0 to those of any other k:
  //   it takes the default route from any node a to any node b to that of the other rails, link by link, and keeps
  //   bandwidths and latencies. No link is of two k.
  virtual bool rails_are_twins() const { return false; }
  // Whether the third condition holds for a network of which port n * rails + r is rail r of node n.
  virtual bool TwinPorts(int /*rails*/) const { return false; }
  virtual int links_of_node() const { return 0; }  // of each node, if rails are twins
  // Endpoints may be arranged in a grid whose lines are closed (tori, HammingMeshes). `grid` has its dimensions, the
  // first one fastest, and the next function gives the endpoint at a position. Empty if there is no grid.
  virtual std::vector<int> grid() const { return {}; }
  virtual int AtGrid(int position) const { return position; }
  virtual bool multicast_in_node() const { return false; }  // the node's switch reduces and multicasts (NVLink SHARP)
  virtual bool reduction_in_network() const { return false; }  // the switches between nodes do too (SHARP)

  // Traffic may pass through endpoints (a torus's ports are its routers).
  virtual bool endpoints_forward() const { return false; }
  // Every endpoint sees the same network (any two can be exchanged).
  virtual bool symmetric() const { return false; }
  // Latency and bandwidth of one endpoint's traffic on an idle network. Collective algorithms are chosen by this alpha
  // and beta unless a model of the communication library gives a better choice. Default: the default route from the
  // first to the last endpoint.
  virtual Seconds alpha() const;
  virtual BytesPerSecond bandwidth() const;
};

}  // namespace twofold
