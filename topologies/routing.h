// Routing policies: which of a topology's routes a flow takes.
//
//   deterministic  the topology's default route
//   ecmp           one minimal route, by a hash of who talks to whom, of the flow's number and the seed
//   spray          packets over all minimal routes evenly (over `most_paths` of them, evenly spread, where there are more)
//   adaptive       UGAL (Singh 2005; Kim, Dally, Scott and Abts 2008, section 4): a flow is cut into `most_paths` parts; each
//                  takes the better of two minimal candidates and two detours drawn at random: minimal where
//                  load(minimal) * hops(minimal) <= load(detour) * hops(detour) + bias, or load(minimal) <= load(detour).
//                  load: the most seconds that any link of the route needs for what it was given and has not finished;
//                  hops: its links. Without detours (fat trees): the better of two minimal routes, part by part.
//                  Flows that start together choose in turn, part by part, as packets of all of them would: one flow
//                  after the other, the first would take what the last then needs.
//
// Ignores: packets, credits, the time that an adaptive router needs to see a load (it sees what flows have been given).
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
absl::StatusOr<RoutingPolicy> RoutingNamed(std::string_view name);  // the error lists the names

struct RoutingOptions {
  RoutingPolicy policy = RoutingPolicy::kDeterministic;
  uint64_t seed = 0;
  int most_paths = 16;  // of one flow, at least 1: spray and adaptive
  double bias = 0;  // adaptive: by how much a detour must be better, in seconds times hops
};

struct Request {
  Pair pair;
  uint64_t flow = 0;  // a number that tells flows of one pair apart
  double bytes = 0;
};

struct Path {
  std::vector<int> links;
  double share = 1;  // of the flow's bytes
};

// What is chosen depends on the topology, the options, who talks to whom, `flow` and, under adaptive routing, on what was
// chosen before and has not finished. Deterministic: the same calls in the same order give the same paths. One thread.
class Router {
 public:
  Router(const Topology& topology, const RoutingOptions& options);

  const Topology& topology() const { return topology_; }
  const RoutingOptions& options() const { return options_; }

  // Replaces `paths` by those of each of some flows that start together; shares of a flow sum to 1. Under adaptive routing
  // what was chosen loads its links until Finished is told.
  void Choose(std::span<const Request> flows, std::vector<std::vector<Path>>& paths);
  // Of one flow that starts by itself.
  void Choose(Pair pair, uint64_t flow, double bytes, std::vector<Path>& paths);
  void Finished(const std::vector<Path>& paths, double bytes);
  // Whether a flow's paths depend on what else is in flight.
  bool depends_on_load() const { return options_.policy == RoutingPolicy::kAdaptive; }

 private:
  struct Choice {
    std::vector<int> links;
    double load = 0;
    double cost = 0;  // load * hops
  };

  void One(Pair pair, int64_t number, std::vector<Path>& paths) const;
  void Spray(Pair pair, std::vector<Path>& paths) const;
  void AddPart(const Request& flow, int part, std::vector<Path>& paths);
  void Better(Pair pair, int64_t first, int64_t count, const std::array<uint32_t, 4>& draws, Choice& best);
  void Judge(Choice& choice) const;
  void Load(const std::vector<int>& links, double bytes);

  const Topology& topology_;
  const RoutingOptions options_;
  std::vector<double> load_;  // by link, under adaptive routing: seconds that its flows need
  Choice minimal_, detour_, other_;  // of the part that chooses
};

}  // namespace twofold
