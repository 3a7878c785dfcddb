// What the ways in which processes meet share.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/control/client.h"
#include "core/proto/spec.pb.h"

namespace twofold::processes {

// A single process, for which no gRPC is started: it may fork simulations.
absl::StatusOr<std::unique_ptr<control::Client>> Alone();

// The certificates of fabric.rendezvous.tls, if it is set. INVALID_ARGUMENT: see control::ReadTls.
absl::StatusOr<control::Tls> TlsOf(const spec::Rendezvous& spec);

// By a library that can send rank 0's bytes to all. Rank 0 listens at `bind`, "": the loopback address if all are on
// one host, else every address. `address`: its host, as others have reached it; tried before its name, which may not
// resolve. Collective over the processes.
struct ByBroadcast {
  int rank = 0, size = 1;
  bool one_host = true;
  std::string address;
  std::string described;                              // "MPI"
  std::function<void(std::string& bytes)> broadcast;  // collective; throws std::runtime_error
};
absl::StatusOr<std::unique_ptr<control::Client>> Meet(const ByBroadcast& by, const spec::Rendezvous& spec);

}  // namespace twofold::processes
