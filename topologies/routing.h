// Routing policies: they choose which of a topology's routes a flow takes.
//
//   deterministic  the topology's default route
//   ecmp           one minimal route, chosen by a hash of source, destination, the flow's number and the seed
//   spray          packets are spread evenly over all minimal routes (or over `most_paths` evenly spaced ones if there
//                  are more)
//   adaptive       UGAL (Singh 2005; Kim, Dally, Scott and Abts 2008, section 4): a flow is cut into `most_paths`
//                  parts. Each part draws two minimal candidates and two detours at random and takes the better of each
//                  two. It goes minimal if load(minimal) * hops(minimal) <= load(detour) * hops(detour) + bias, or
//                  load(minimal) <= load(detour). load: over the links of the route, the maximum time in seconds that a
//                  link needs for its unfinished traffic; hops: the number of its links. Without detours (fat trees):
//                  the better of two minimal routes, part by part. Flows that start together choose in turn, part by
//                  part, as packets of all of them would. Otherwise the first flow would take the routes that the last
//                  one needs.
//
// Not modelled: packets, credits, and the time that an adaptive router needs to see a load. It sees the assigned flows
// at once.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topologies/graph/topology.h"

namespace twofold {

enum class RoutingPolicy { kDeterministic, kEcmp, kSpray, kAdaptive };
std::string_view RoutingName(RoutingPolicy policy);
absl::StatusOr<RoutingPolicy> RoutingNamed(std::string_view name);  // the error lists the valid names

struct RoutingOptions {
  RoutingPolicy policy = RoutingPolicy::kDeterministic;
  uint64_t seed = 0;
  int most_paths = 16;  // per flow, at least 1: for spray and adaptive
  double bias = 0;      // adaptive: the advantage that a detour must have, in seconds times hops
};

struct Request {
  Pair pair;
  uint64_t flow = 0;  // distinguishes flows of the same pair
  double bytes = 0;
};

struct Path {
  std::vector<int> links;
  double share = 1;  // of the flow's bytes
};

// The choice depends on the topology, the options, source and destination, `flow` and, under adaptive routing, on
// earlier choices that have not finished. Deterministic: the same calls in the same order give the same paths. For use
// by one thread.
class Router {
 public:
  Router(const Topology& topology, const RoutingOptions& options);

  const Topology& topology() const { return topology_; }
  const RoutingOptions& options() const { return options_; }

  // Replaces `paths` by the paths of several flows that start together; the shares of a flow sum to 1. Under adaptive
  // routing the chosen paths load their links until Finished is called.
  void Choose(std::span<const Request> flows, std::vector<std::vector<Path>>& paths);
  // The same for one flow that starts by itself.
  void Choose(Pair pair, uint64_t flow, double bytes, std::vector<Path>& paths);
  void Finished(const std::vector<Path>& paths, double bytes);
  // Whether a flow's paths depend on other traffic in flight.
  bool depends_on_load() const { return options_.policy == RoutingPolicy::kAdaptive; }

 private:
  struct Choice {
    std::vector<int> links;
    double load = 0;
    double cost = 0;  // load * hops
  };

  struct LinkLoad {
    double seconds = 0;  // needed for the flows assigned to it
    double bandwidth = 0;
  };

  void One(Pair pair, int64_t number, std::vector<Path>& paths) const;
  void Spray(Pair pair, std::vector<Path>& paths) const;
  void AddPart(const Request& flow, int part, std::vector<Path>& paths);
  void Better(Pair pair, int64_t first, int64_t count, const std::array<uint32_t, 4>& draws, Choice& best);
  void Judge(Choice& choice) const;
  void Load(const std::vector<int>& links, double bytes);

  const Topology& topology_;
  const RoutingOptions options_;
  std::vector<LinkLoad> loads_;      // by link, under adaptive routing
  Choice minimal_, detour_, other_;  // for the part that is choosing
};

}  // namespace twofold
