// A topology with something wrong: links that are slower, farther or gone, others' traffic, latencies that vary.
//
// Faults are of cables: both ways. Routes over failed links are left out: of a pair's minimal routes those that are left
// are its minimal routes, and where none is, its detours that are left; pairs that have neither cannot talk (NoRoute).
// Deterministic routing, where its own route is gone, takes one of those left by the number of the destination, as
// forwarding tables do.
//
// Ignores: the time in which a network finds out; packets lost meanwhile. Jitter is a link's, drawn once a run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "topologies/graph/topology.h"

namespace twofold {

struct LinkFault {
  std::string link;      // its name, or the beginning of several with a * behind it
  bool failed = false;
  double bandwidth = 1;  // the share that is left, above 0
  Seconds latency{0};    // added
};

struct Degradation {
  std::vector<LinkFault> faults;
  double background = 0;  // share of every network link's bandwidth that others take, in [0, 1)
  double jitter = 0;      // network links' latencies are multiplied by 1 + |normal| times this
  uint64_t seed = 1;      // of jitter
  bool nothing() const { return faults.empty() && background == 0 && jitter == 0; }
};

struct Degraded {
  std::unique_ptr<Topology> topology;
  std::vector<std::string> notes;  // what was done to it, a sentence each
};

// Refuses names that no link has (naming near ones) and traffic or jitter where there are no network links; `field` is the
// message in a spec that says it all, for errors.
absl::StatusOr<Degraded> MakeDegraded(std::unique_ptr<Topology> topology, const Degradation& degradation,
                                      std::string_view field = "fabric.simulated.network");

// Whether every two of `endpoints` have a route; names the first two that have none. Beyond 2,048 endpoints it is left to
// the run, which ends at NoRoute.
absl::Status CheckRoutes(const Topology& topology, std::span<const int> endpoints,
                         std::string_view field = "fabric.simulated.network.faults");

}  // namespace twofold
