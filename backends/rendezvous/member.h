// One process's side of the rendezvous: it comes to the store of rank 0, waits for all the others, and exchanges bytes with them.
//
//   seeking   the store is not there yet (rank 0 may be late), or its host's name is not known yet: tried again until the time-out
//   waiting   let in; waits until all have come
//   met       may exchange bytes; a store that is lost from here on only fails exchanges
//   ended     by the store's word, by its loss, or by having left; every call returns why
//
// From one thread at a time; gRPC's threads hear the store meanwhile.
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
    std::string host;        // where the store is looked for: a name, or an address in numbers
    int port = 0;
    double timeout_s = 300;  // for the store to be there and all to come; and for each exchange
    std::string token;       // the job's; "" is for this host's loopback address alone
  };
  // DEADLINE_EXCEEDED, UNAVAILABLE or FAILED_PRECONDITION naming who is missing, lost or contradicts; PERMISSION_DENIED: the store
  // is another run's. INVALID_ARGUMENT: there is no token.
  static absl::StatusOr<std::unique_ptr<Member>> Join(const Options& options);
  virtual ~Member() = default;  // leaves in order

  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // Collective over the ranks, in the same order on all. The bytes of all, by rank; those of rank 0.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) = 0;
  virtual absl::StatusOr<std::string> Broadcast(std::string bytes) = 0;
};

// This process as it introduces itself: host, machine and id are filled in.
Hello ThisProcess();

}  // namespace twofold::rendezvous
