// One process's side of the rendezvous: it comes to the store of rank 0, waits for all the others, and exchanges bytes
// with them.
//
//   seeking   the store is not up (rank 0 may be late), or its host name does not resolve: retries until the time-out
//   waiting   admitted; waits until all have come
//   met       may exchange bytes; losing the store now only fails exchanges
//   ended     by the store, by losing the store, or by leaving; every call returns the reason
//
// Used by one thread at a time; gRPC's threads receive the store's messages meanwhile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/rendezvous/rendezvous.pb.h"

namespace twofold::rendezvous {

class Member {
 public:
  struct Options {
    int rank = 0, size = 1;
    std::string host;  // the store's host: a name or a numeric address
    int port = 0;
    double timeout_s = 300;  // for the store to come up and all to come, and for each exchange
    std::string token;       // the job's; "" is allowed only with this host's loopback address
  };
  // DEADLINE_EXCEEDED, UNAVAILABLE or FAILED_PRECONDITION, naming the process that is missing, lost or contradicts the
  // others; PERMISSION_DENIED: the store belongs to another run. INVALID_ARGUMENT: there is no token.
  static absl::StatusOr<std::unique_ptr<Member>> Join(const Options& options);
  virtual ~Member() = default;  // leaves in order

  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // Collective over the ranks, in the same order on all. AllGather returns the bytes of all, indexed by rank; Broadcast
  // those of rank 0.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) = 0;
  virtual absl::StatusOr<std::string> Broadcast(std::string bytes) = 0;
};

// This process's Hello, with host, machine and id filled in.
Hello ThisProcess();

}  // namespace twofold::rendezvous
