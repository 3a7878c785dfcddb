// The groups of two ranks over which parameter servers and workers exchange messages. A group's messages run in order,
// so each pair has a group of its own: a server must not wait for a slow worker before it hears a fast one.
//
// With servers, ranks 0 to servers - 1 of the world are the servers, and the others the workers. Server 0 decides for
// all servers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/process_group.h"

namespace twofold {

// A group of each of the world's ranks 0 to first - 1 with each of the others. Returns this rank's groups, by partner,
// in the order of ranks; the lower rank is rank 0. Collective over `world`, blocking.
std::vector<std::unique_ptr<ProcessGroup>> MakePairs(ProcessGroup& world, int first, const std::string& name);

// One rank's groups. In each of them the server, or server 0, is rank 0, and the other one rank 1.
struct ServerLinks {
  using Groups = std::vector<std::unique_ptr<ProcessGroup>>;
  Groups data;  // on a server: by worker; on a worker: by server. For gradients and parameters
  Groups stop;  // between server 0, by worker, and each worker, which has one. Used at the end
  // Between server 0, by follower (server 1, 2, ...) and worker, and each follower, which has one row. Server 0 says in
  // the group of a worker that it takes this worker's gradient next
  std::vector<Groups> order;
  std::unique_ptr<ProcessGroup> servers;  // all servers; on a worker null
};

// Collective over `world`, blocking.
ServerLinks MakeServerLinks(ProcessGroup& world, int servers);

}  // namespace twofold
