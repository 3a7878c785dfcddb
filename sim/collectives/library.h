// How a communication library runs collectives and messages: which algorithm, which protocol, on how many channels, and what
// its software adds. A file each, a row in libraries.cc.
//
//   ideal     no software: alpha and beta of the links alone; `auto` takes what is soonest done on the links themselves
//   nccl      channels, protocols (Simple, LL, LL128), NVLS, rings and trees over rails; selection by NCCL's own cost model
//   open_mpi  point-to-point messages (eager, rendezvous) and the decision tables of Open MPI's "tuned"
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
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
  // Algorithms and protocols that can be forced. A library without protocols has none.
  virtual std::vector<std::string_view> algorithms() const = 0;
  virtual std::vector<std::string_view> protocols() const { return {}; }
  // The schedule, the library's costs in it (Flow::hop_seconds, Flow::rate, bytes on the wire, Phase::seconds). What was
  // forced and cannot run is refused, never replaced: the error says why.
  virtual absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places, const Choice& choice) const = 0;
  // What is to be chosen from by the time it takes alone on the network itself, what seems soonest first. One, Plan's, where the
  // library chooses by a model or by tables of its own.
  virtual absl::StatusOr<std::vector<Schedule>> Plans(const CollectiveShape& shape, const Places& places, const Choice& choice) const {
    absl::StatusOr<Schedule> plan = Plan(shape, places, choice);
    if (!plan.ok()) return plan.status();
    return std::vector<Schedule>{*std::move(plan)};
  }
  // One message from rank 0 to rank 1 of `places`; each is done when its last phase has ended. It begins when the sender is
  // there, if `bytes` are at most eager_bytes() (its data waits for the receiver, who is done no earlier than it comes);
  // larger ones when both are (rendezvous).
  virtual Schedule Message(double bytes, const Places& places) const = 0;
  virtual double eager_bytes() const { return -1; }  // less than 0: no message is eager
};

// By cluster::Library::name; "" is "ideal". The error names the libraries.
absl::StatusOr<std::unique_ptr<Library>> MakeLibrary(const cluster::Library& library);
// What libraries can be forced to, each once: what a spec may name. A cluster's own may not have all of them.
std::vector<std::string> AllAlgorithms();
std::vector<std::string> AllProtocols();

}  // namespace twofold::sim
