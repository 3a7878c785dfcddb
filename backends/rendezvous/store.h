// The store that rank 0 serves, on gRPC, so that the processes of a run find each other (protocol: rendezvous.proto).
//
// Every process, rank 0's own too, keeps one call open for as long as it takes part; a call that breaks is a lost process, which is
// known at once where the process has ended, and within kSilence twice where its host has. What the store does with whom it hears is
// in meeting.h. Only who knows the job's token is heard: others are refused with a reason, and disturb no one. The token and all
// bytes travel in the clear: it keeps jobs apart, not attackers on the network out.
//
// Threads: gRPC's call into the meeting, one at a time; one of its own looks at the clock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace twofold::rendezvous {

class Store {
 public:
  struct Options {
    int size = 1;             // ranks
    std::string bind;         // where to listen: a name, or an address in numbers, of this host
    int port = 0;             // 0: any that is free
    std::string place;        // where others look for it, for messages: "node1:29500"
    std::string process;      // "process 4711 on node1", this one
    double timeout_s = 300;   // for all to come, and for each exchange
    std::string token;        // the job's; "" is for this host's loopback address alone
  };
  // Listens. INVALID_ARGUMENT: no such host, not an address of this host, or one that other hosts can reach while there is no token; UNAVAILABLE: the port is taken; FAILED_PRECONDITION: this
  // process may not have as many files open (the soft limit is raised, the hard one is not).
  static absl::StatusOr<std::unique_ptr<Store>> Listen(const Options& options);
  // Bids farewell to all, and waits for them to leave, but not for long.
  virtual ~Store() = default;

  virtual std::string address() const = 0;  // where this process reaches it, in numbers
  virtual std::string bind() const = 0;     // where it listens, in numbers
  virtual int port() const = 0;
};

}  // namespace twofold::rendezvous
