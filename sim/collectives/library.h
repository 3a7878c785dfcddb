// How a communication library runs collectives and messages: which algorithm, which protocol, how many channels, and
// the costs of its software. Each library has its own file and a row in libraries.cc.
//
//   ideal     no software costs, only alpha and beta of the links; `auto` takes what finishes first on the links
//   nccl      channels, protocols (Simple, LL, LL128), NVLS, rings and trees over rails; chosen by NCCL's tuner
//   rccl      AMD's fork of NCCL: the same laws with its constants; the cheapest way
//   open_mpi  point-to-point messages (eager, rendezvous) and the decision tables of Open MPI's "tuned"
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/estimate.h"
#include "core/proto/cluster.pb.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

struct Choice {
  std::string algorithm = "auto", protocol = "auto";
};

class Library {
 public:
  virtual ~Library() = default;
  virtual std::string_view name() const = 0;
  // The algorithms and protocols that can be forced. A library without protocols has none.
  virtual std::vector<std::string_view> algorithms() const = 0;
  virtual std::vector<std::string_view> protocols() const { return {}; }
  // The schedule, with the library's costs in it (Flow::hop_seconds, Flow::rate, bytes on the wire, Phase::seconds). A
  // forced choice that cannot run is refused, never replaced; the error says why.
  virtual absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places,
                                        const Choice& choice) const = 0;
  // Candidates among which the caller chooses by their time alone on the network itself, the best estimate first. Only
  // Plan's result, if the library chooses by its own model or tables.
  virtual absl::StatusOr<std::vector<Schedule>> Plans(const CollectiveShape& shape, const Places& places,
                                                      const Choice& choice) const {
    absl::StatusOr<Schedule> plan = Plan(shape, places, choice);
    if (!plan.ok()) return plan.status();
    std::vector<Schedule> plans;
    plans.push_back(*std::move(plan));
    return plans;
  }
  // One message from rank 0 to rank 1 of `places` (Places::group has the others, if there are any); each rank is done
  // when its last phase has ended. A message of at most eager_bytes() begins when the sender is ready; its data waits
  // for the receiver, who is not done before it arrives. A larger one begins when both are ready (rendezvous).
  virtual Schedule Message(double bytes, const Places& places) const = 0;
  virtual double eager_bytes() const { return -1; }  // negative: no message is eager
  // Four fifths of the measured times that no constant was fitted to lie between these factors of the predicted ones,
  // for large messages, within a node or between nodes. 1 and 1: not compared with measurements.
  virtual Range spread(bool /*between_nodes*/) const { return {}; }
};

// By cluster::Library::name; "" means "ideal". The error lists the libraries.
absl::StatusOr<std::unique_ptr<Library>> MakeLibrary(const cluster::Library& library);
// All names that libraries accept, each once: what a spec may name. The library of a given cluster may not support all
// of them.
std::vector<std::string> AllAlgorithms();
std::vector<std::string> AllProtocols();

}  // namespace twofold::sim
