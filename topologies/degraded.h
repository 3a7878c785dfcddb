// A degraded topology: links that are slower, have more latency or have failed, background traffic, and jitter.
//
// A fault affects a cable, so both directions. Routes over failed links are removed. The remaining minimal routes of a
// pair are its minimal routes; if none remains, its remaining detours are used instead. Pairs without either cannot
// communicate (NoRoute). If the default route of a pair has failed, deterministic routing picks one of the remaining
// routes by the destination's number, as forwarding tables do.
//
// Not modelled: the time in which a network detects a fault, and the packets lost meanwhile. Jitter is drawn once per
// link and run.
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
  std::string link;  // its name, or a prefix of several names followed by *
  bool failed = false;
  double bandwidth = 1;  // the fraction that remains, above 0
  Seconds latency{0};    // added
};

struct Degradation {
  std::vector<LinkFault> faults;
  double background = 0;  // share of every network link's bandwidth that other traffic takes, in [0, 1)
  double jitter = 0;      // network links' latencies are multiplied by 1 + |normal| times this
  uint64_t seed = 1;      // of jitter
  bool nothing() const { return faults.empty() && background == 0 && jitter == 0; }
};

struct Degraded {
  std::unique_ptr<Topology> topology;
  std::vector<std::string> notes;  // what was changed, one sentence each
};

// Refuses link names that do not exist (the message suggests similar names), and background traffic or jitter on a
// topology without network links. `field`, for errors, is the message of the spec that holds these options.
absl::StatusOr<Degraded> MakeDegraded(std::shared_ptr<const Topology> topology, const Degradation& degradation,
                                      std::string_view field = "fabric.simulated.network");

// Checks that every two of `endpoints` have a route; the error names the first pair without one. Beyond 2,048 endpoints
// nothing is checked; a run that needs a missing route then ends with NoRoute.
absl::Status CheckRoutes(const Topology& topology, std::span<const int> endpoints,
                         std::string_view field = "fabric.simulated.network.faults");

}  // namespace twofold
