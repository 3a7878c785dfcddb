// A topology: vertices joined by directed links, and the routes between endpoints. No simulator in it.
//
// A cable is two links, one each way. Endpoints are the devices that ranks sit on; they are the first vertices. Between two
// endpoints there are minimal routes and, in some topologies, detours (non-minimal routes); routes are numbered, never
// listed, as a fat tree has thousands. Which of them a flow takes is for a Router (routing.h) to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace twofold {

struct Vertex {
  enum Kind { kDevice, kNic, kHost, kSwitch };
  Kind kind = kSwitch;
  std::string name;
  int node = -1;   // the node (server) it stands in; -1: the network between nodes
  int group = -1;  // that of a dragonfly, the pod of a fat tree, the board of a HammingMesh; -1: none
  int level = 0;   // of switches: 0 next to the endpoints, then upwards; for pictures
};

enum class Medium { kMemory, kNvlink, kPcie, kNetwork };  // kNvlink: all that joins devices directly (xGMI, ICI, C2C)
std::string_view MediumName(Medium medium);

struct Link {
  std::string name;
  BytesPerSecond bandwidth;
  Seconds latency{0};  // of the wire and of the vertex it leaves
  int from = -1, to = -1;  // vertices; -1 where a topology has no picture of them
  Medium medium = Medium::kNetwork;
};

// Who talks to whom. `rail`: through NIC number `rail` of both nodes; -1: each through its own (the nearest).
struct Pair {
  int from, to;  // endpoints; not the same
  int rail = -1;
};

// Immutable once built; any thread may read it.
class Topology {
 public:
  virtual ~Topology() = default;
  virtual std::string_view kind() const = 0;
  virtual int endpoints() const = 0;
  virtual const std::vector<Vertex>& vertices() const = 0;
  virtual const std::vector<Link>& links() const = 0;

  // ---- Routes: numbers [0, MinimalRoutes) are minimal, [MinimalRoutes, MinimalRoutes + Detours) are not ----
  virtual int64_t MinimalRoutes(Pair) const { return 1; }
  virtual int64_t Detours(Pair) const { return 0; }
  // Replaces `route` by the indices of the links of route `number`, in order.
  virtual void Route(Pair pair, int64_t number, std::vector<int>& route) const = 0;
  // The number that deterministic routing takes, always minimal: d-mod-k in fat trees, dimension order on tori, ...
  virtual int64_t DefaultRoute(Pair) const { return 0; }
  // End to end for a message of no bytes on the default route; default: the sum over its links.
  virtual Seconds Latency(Pair pair) const;
  // As it should be: without faults and jitter.
  virtual Seconds UsualLatency(Pair pair) const { return Latency(pair); }

  // ---- Where endpoints sit ----
  virtual int nodes() const { return endpoints(); }
  virtual int NodeOf(int endpoint) const { return endpoint; }
  virtual int rails() const { return 1; }                 // NICs a node
  virtual int RailOf(int) const { return 0; }             // the endpoint's own NIC, of its node's
  virtual int GroupOf(int) const { return 0; }            // as Vertex::group, for placement
  // Endpoints that stand in a grid whose lines are closed (tori, HammingMeshes): its dimensions, the first fastest, and who
  // stands at a position. Empty: they do not.
  virtual std::vector<int> grid() const { return {}; }
  virtual int AtGrid(int position) const { return position; }
  virtual bool multicast_in_node() const { return false; }       // its switch reduces and multicasts (NVLink SHARP)
  virtual bool reduction_in_network() const { return false; }    // so do the switches between nodes (SHARP)

  // Traffic may pass through endpoints on its way (a torus's ports are its routers).
  virtual bool endpoints_forward() const { return false; }
  // Every endpoint sees the same network (any two can be exchanged).
  virtual bool symmetric() const { return false; }
  // What one endpoint's traffic meets when nothing else is in flight: the alpha and beta by which collective algorithms
  // are chosen where no library's model says better. Default: of the default route between the first and the last endpoint.
  virtual Seconds alpha() const;
  virtual BytesPerSecond bandwidth() const;
};

}  // namespace twofold
