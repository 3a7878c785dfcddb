// Reads execution traces of MLCommons' Chakra, schema 1.0: a file for each rank, of a GlobalMetadata and Nodes, each
// behind its length.
//
// What is used: types, ids, data_deps (ctrl_deps, which say who called, only if no node has data_deps),
// duration_micros, and the attributes is_cpu_op, comm_type, comm_size (bytes that the rank puts in), comm_src,
// comm_dst, comm_tag, pg_name, and "stream". Twofold's own files have more: "duration_seconds", "root", "bytes_to" and
// "bytes_from" of uneven all-to-alls, marks of steps. A pg_name is looked up in groups.json, an object from names to
// lists of ranks; without one a communication is among all ranks.
//
// A collective node without a comm_type, as the host's calls of collectives are, counts as work. Traces of other
// programs may lack edges. A node of the device that follows no other of its stream is made to follow the one before it
// there, by start_time_micros. Dependencies on nodes that are not in the file are left out. The notes say how many of
// each. A cycle is an error that names its nodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/run/workload.h"

namespace twofold {

// One rank's file, as far as it can be understood without the others.
struct ChakraRank {
  struct Communication {
    size_t node;        // in `nodes`
    std::string group;  // pg_name; "": all ranks
    std::string description;
    int64_t peer = -1;  // world rank; of a collective: its root in the group
  };
  int64_t rank = -1;  // -1: the file does not say
  std::vector<WorkloadNode> nodes;
  std::vector<Communication> communications;
  int64_t without_type = 0, without_duration = 0, edges_added = 0, edges_dropped = 0;
};
// `file` is for errors. InvalidArgument: no such trace, a node without what its type needs, an id that occurs twice, a
// cycle.
absl::StatusOr<ChakraRank> ReadChakra(std::string_view bytes, const std::string& file);

struct ChakraTraces {
  Workload workload;
  std::vector<std::string> notes;  // what was repaired, and what is missing
};
// `folder` has "*.<rank>.et" for every rank and, if nodes name groups, groups.json; or it has a folder `chakra` that
// does.
absl::StatusOr<ChakraTraces> ReadChakraFolder(const std::string& folder);

}  // namespace twofold
