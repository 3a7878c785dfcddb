// Open MPI 4.1's collectives (component "tuned", messages over sockets): rounds of point-to-point messages.
//
// Each rank proceeds on its own when its messages of a round have left and arrived (Schedule::loose). A message of n
// bytes costs the route's latency and n bytes on its links. In addition:
//   - Messages that a rank sends at once start one gap after another. A message of up to in_order_bytes starts when the
//     one before has left (these fit the socket's share of the host's queue, so congestion beyond the host holds them
//     in switches and does not block the host's own link); larger ones are sent concurrently.
//   - The first free_bytes that cross an idle link cost nothing: each link is a token bucket of that many bytes.
//     Messages drain it in the order in which they begin, also across rounds, and it refills at the link's rate
//     (loose.cc).
//   - A link that carries messages in one direction carries acknowledgements for messages in the other direction; if
//     two ranks send each other messages, the acknowledgements are piggybacked.
//   - Above eager_bytes, the receiver must be ready and is asked first: one more round trip.
//
// Assumes: the library chooses as Open MPI 4.1.4 does by default (open_mpi_decisions.h), and operations commute.
// Ignores: the arithmetic of reductions, segmentation of messages (tuned's own choices do not use it), CPU time of
// sending (also that ranks which share cores do not begin at the same time), and unfairness among connections on a
// link. The cost of simulation grows with ranks times rounds.
#pragma once

#include <memory>

#include "sim/collectives/library.h"

namespace twofold::sim {

// Refuses negative figures.
absl::StatusOr<std::unique_ptr<Library>> MakeOpenMpiLibrary(const cluster::Library& library);

}  // namespace twofold::sim
