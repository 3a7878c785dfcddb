// Routing policies: they choose which of a topology's routes a flow takes.
//
//   deterministic  the topology's default route
//   ecmp           one minimal route, chosen by a hash of source, destination, the flow's number and the seed
//   spray          packets are spread evenly over all minimal routes (or over `most_paths` evenly spaced ones if there
//                  are more)
//   valiant        packets are spread evenly over minimal routes, at most half of `most_paths`, and evenly spaced
//                  detours, which are the rest (after Valiant 1982, "A Scheme for Fast Parallel Communication", whose
//                  routes are all detours). Traffic of one switch of a dragonfly's group to another then has the
//                  group's bandwidth and not one cable's, as under adaptive routing, but does not depend on other
//                  traffic. Without detours (fat trees): spray
//   adaptive       UGAL (Singh 2005; Kim, Dally, Scott and Abts 2008, section 4): a flow is cut into `most_paths`
//                  parts. Each part draws two minimal candidates and two detours at random and takes the better of each
//                  two. It goes minimal if load(minimal) * hops(minimal) <= load(detour) * hops(detour) + bias, or
//                  load(minimal) <= load(detour). load: over the links of the route, the maximum time in seconds that a
//                  link needs for its unfinished traffic; hops: the number of its links. Without detours (fat trees):
//                  the better of two minimal routes, part by part. Flows that start together choose in turn, part by
//                  part, as packets of all of them would. Otherwise the first flow would take the routes that the last
//                  one needs. Where flows share a link, each part has an equal share of it: what a flow gets there
//                  depends on how much of it goes there, not on the number of its paths.
//
// Not modelled: packets, credits, and the time that an adaptive router needs to see a load. It sees the assigned flows
// at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/philox.h"
#include "topologies/graph/topology.h"

namespace twofold {

enum class RoutingPolicy { kDeterministic, kEcmp, kSpray, kValiant, kAdaptive };
inline constexpr std::array kRoutingPolicies = {RoutingPolicy::kDeterministic, RoutingPolicy::kEcmp,
                                                RoutingPolicy::kSpray, RoutingPolicy::kValiant,
                                                RoutingPolicy::kAdaptive};
std::string_view RoutingName(RoutingPolicy policy);
absl::StatusOr<RoutingPolicy> RoutingNamed(std::string_view name);  // the error lists the valid names

struct RoutingOptions {
  RoutingPolicy policy = RoutingPolicy::kDeterministic;
  uint64_t seed = 0;
  int most_paths = 16;  // per flow, at least 1: for spray, valiant and adaptive
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
  int parts = 1;  // it has as much of each link as so many flows: under adaptive routing, the flow's parts that took it
};

// The paths of many flows, in little memory.
class Paths {
 public:
  struct View {
    std::span<const int> links;
    double share;
    int parts;
  };
  size_t flows() const { return counts_.size(); }
  size_t links() const { return links_.size(); }  // of all paths
  int of(size_t flow) const { return counts_[flow]; }
  View At(size_t flow, int number) const {
    const Entry& entry = entries_[flow * most_ + static_cast<size_t>(number)];
    return {LinksOf(entry), entry.share, entry.parts};
  }

 private:
  friend class Router;
  struct Entry {
    size_t first;
    uint32_t size, hash;  // of its links; of those that its flow's paths do not share
    double share;
    int parts;
  };
  std::span<const int> LinksOf(const Entry& entry) const { return {links_.data() + entry.first, entry.size}; }
  void Clear(size_t flows, int most);
  // To a path over the same links, if the flow has one. All its paths have the same head and tail.
  void Add(size_t flow, std::span<const int> head, std::span<const int> middle, std::span<const int> tail, double share,
           int parts);

  size_t most_ = 0;                   // paths of one flow
  std::vector<int> counts_;           // by flow
  std::unique_ptr<Entry[]> entries_;  // `most_` for each flow; the first ones are in use
  size_t room_ = 0;                   // of entries_
  std::vector<int> links_;
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
  // The paths that these flows would take if they started together now, each in so many parts, at most
  // options().most_paths. They load no link afterwards. Only under adaptive routing.
  void Try(std::span<const Request> flows, int parts, Paths& paths);
  // Whether a flow's paths depend on other traffic in flight.
  bool depends_on_load() const { return options_.policy == RoutingPolicy::kAdaptive; }

 private:
  struct LinkLoad {
    double seconds = 0;  // needed for the flows assigned to it
    double bandwidth = 0;
  };

  // What a flow chooses from. All its routes have the same links at both ends, which are in fixed_.
  struct Offer {
    PhiloxKey key;
    int64_t minimal, detours;  // routes
    Topology::Middle middle;
    size_t fixed;
    int head, tail;  // so many links
    bool only() const { return minimal + detours == 1; }
  };
  // The middle of a route that a part may take; its links are in drawn_links_.
  struct Candidate {
    size_t first, size;
  };
  struct Choice {
    Candidate candidate;
    double load;
    double cost;  // load * hops
  };
  // The candidates of one part of one flow.
  struct Drawn {
    size_t flow;
    std::array<Candidate, 2> minimal, detour;  // equal ones were drawn twice
    bool detours;                              // there are some
  };

  void One(Pair pair, int64_t number, std::vector<Path>& paths) const;
  // Over `minimal` minimal routes, 1 or more, and `detours` detours.
  void Spread(Pair pair, int64_t minimal, int64_t detours, std::vector<Path>& paths) const;
  void Adapt(std::span<const Request> flows, int most, Paths& paths);
  Offer OfferTo(const Request& flow);
  void Draw(const Offer& offer, int part, size_t flow);
  std::span<const int> LinksOf(const Candidate& candidate) const {
    return {drawn_links_.data() + candidate.first, candidate.size};
  }
  std::span<const int> HeadOf(const Offer& offer) const {
    return {fixed_.data() + offer.fixed, static_cast<size_t>(offer.head)};
  }
  std::span<const int> TailOf(const Offer& offer) const {
    return {fixed_.data() + offer.fixed + offer.head, static_cast<size_t>(offer.tail)};
  }
  Candidate Decide(const Offer& offer, const Drawn& drawn) const;
  double MostOf(std::span<const int> links, double load) const;  // the load of the links, or `load` if that is more
  void Load(std::span<const int> links, double bytes);

  const Topology& topology_;
  const RoutingOptions options_;
  std::vector<LinkLoad> loads_;               // by link, under adaptive routing
  size_t in_flight_ = 0;                      // flows that load links
  bool keeps_ = false;                        // Load adds to kept_
  std::vector<std::pair<int, double>> kept_;  // links and their seconds before each change
  Paths paths_;                               // scratch of Choose
  // Scratch of Adapt.
  std::vector<Offer> offers_;  // by flow
  std::vector<Drawn> drawn_;
  std::vector<int> drawn_links_, fixed_, head_, tail_;
  std::vector<size_t> ends_;
};

}  // namespace twofold
