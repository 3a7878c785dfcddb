// The store that rank 0 serves over gRPC, through which the processes of a run find each other (protocol:
// rendezvous.proto).
//
// Every process, including rank 0's own, keeps one call open for as long as it takes part. A broken call means a lost
// process. That is detected at once if the process has ended, and within twice kSilenceMs if its host has. meeting.h
// defines how the store handles messages. Only processes that know the job's token are admitted; others are refused
// with a reason and disturb no one. The token and all bytes are sent in clear text: the token keeps jobs apart, but
// does not keep attackers on the network out.
//
// Threads: gRPC's threads call the meeting, one at a time; one thread of the store's own checks the clock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace twofold::rendezvous {

class Store {
 public:
  struct Options {
    int size = 1;            // ranks
    std::string bind;        // where to listen: a name or a numeric address of this host
    int port = 0;            // 0: any free port
    std::string place;       // where others look for it, for error messages: "node1:29500"
    std::string process;     // this process: "process 4711 on node1"
    double timeout_s = 300;  // for all to come, and for each exchange
    std::string token;       // the job's; "" is allowed only with this host's loopback address
  };
  // Listens. INVALID_ARGUMENT: no such host, not an address of this host, or an address that other hosts can reach
  // while there is no token; UNAVAILABLE: the port is in use; FAILED_PRECONDITION: this process may not open enough
  // files (the soft limit is raised, the hard one is not).
  static absl::StatusOr<std::unique_ptr<Store>> Listen(const Options& options);
  // Sends Farewell to all, and waits for them to leave, but not for long.
  virtual ~Store() = default;

  virtual std::string address() const = 0;  // numeric; where this process reaches it
  virtual std::string bind() const = 0;     // numeric; where it listens
  virtual int port() const = 0;
};

}  // namespace twofold::rendezvous
