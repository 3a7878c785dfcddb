// Open MPI 4.1's collectives (component "tuned", messages over sockets): rounds of point-to-point messages.
//
// Each rank goes on by itself when its own messages of a round have left and arrived (Schedule::loose). A message of n bytes
// costs the route's latency and n bytes on its links, and further:
//   - messages that a rank sends at once leave one gap after the other; those to in_order_bytes each when the one before has
//     left (they fit the socket's share of the host's queue, so that congestion beyond the host holds them in switches and not
//     the host's own link), larger ones side by side;
//   - the first free_bytes that cross an idle link cost nothing: each link is a token bucket of that many bytes, which messages
//     drain in the order in which they begin, also those of other rounds, and which the link's rate fills (loose.cc);
//   - a link that carries messages one way carries the acknowledgements of those that go the other way; where two ranks send
//     each other messages, theirs ride along;
//   - above eager_bytes the receiver must be there, and is asked first: a round trip more.
//
// Assumes: the library chooses as Open MPI 4.1.4 does where nothing is forced (open_mpi_decisions.h), and operations that commute.
// Ignores: the arithmetic of reductions, segments of messages (tuned's own choices use none), the processor's share in
// sending (nor that ranks which share cores begin one after the other), how unevenly a transport shares a link among connections. Costs of simulation grow with ranks times rounds.
#pragma once

#include <memory>

#include "sim/collectives/library.h"

namespace twofold::sim {

// Refuses figures that are negative.
absl::StatusOr<std::unique_ptr<Library>> MakeOpenMpiLibrary(const cluster::Library& library);

}  // namespace twofold::sim
