// What the ranks of a job do, as graphs: work that takes time, communication, and what follows what. Traces of other
// programs, or of this one, are read into it, and the simulated fabric runs it on any cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/communication.h"

namespace twofold {

struct WorkloadNode {
  enum Kind { kWork, kCollective, kSend, kRecv, kMark } kind = kWork;
  std::string name;
  std::string stream = {};  // "compute"; "": the trace does not say
  bool host = false;        // the host's, not the device's
  double seconds = 0;       // kWork
  std::vector<int> after;   // nodes of this rank, by place, that must have ended before it begins
  // Of communication.
  int group = -1;  // in Workload::groups
  Communication::Kind operation = Communication::kBarrier;
  int64_t bytes = 0;                          // that the rank puts in; of a scatter, that the root does
  int peer = 0;                               // root, or the other side of a message: ranks in the group
  Tag tag = 0;                                // of a message
  std::vector<int64_t> bytes_to, bytes_from;  // kAllToAllV: by rank in the group
};

struct Workload {
  struct Group {
    std::string name;
    std::vector<int> ranks;  // by rank in the group
  };
  std::vector<Group> groups;
  std::vector<std::vector<WorkloadNode>> ranks;  // by rank; a node comes after all that it follows
};

}  // namespace twofold
