// `twofold calibrate --from=TABLE --cluster=CLUSTER --cluster-out=FILE`: the constants of a cluster's links under NCCL
// or RCCL, from a table of measured collectives.
//
// The table has a row for each size: collective (a name of `twofold bench`), ranks, nodes, bytes (as nccl-tests counts
// them) and us (microseconds of one call, out of place where there is such a form). Fitted are those of
//     library.nccl.nvlink_efficiency                bandwidth within a node           rows with several ranks a node
//     library.nccl.network_efficiency               rings and trees between nodes     rows of several nodes
//     library.nccl.messages_network_efficiency      all_to_all and send_recv between  such rows of several nodes
//     library.nccl.call_us                          what every call takes besides     all rows
//     machines.network.nic_us                       latency of a NIC                  rows of several nodes
// for which the table has rows. Each prediction is `twofold bench`'s own. All other constants stay those of the GPU's
// generation and of the network's kind, whose laws carry over from cluster to cluster (sim/collectives/nccl_costs.h).
// A fifth of the rows, by hash, takes no part in the fit; their errors are printed, and their median stands in the
// cluster's source. Errors count in full first, and then up to 40 % only, so a few rows of another regime do not
// decide. The fit minimises the mean of |log(predicted / measured)|, so it is the same every time.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace twofold::calibrate {

struct FromSweep {
  std::string table;    // .csv or .csv.gz
  std::string cluster;  // a name of the catalogue, or a cluster's .textproto
  std::string out;      // the cluster's .textproto to write
  bool json = false;    // print JSON
};

// Writes the cluster with the fitted constants. Prints them, and the errors before and after, to stdout. Refuses tables
// of fewer than 20 rows, rows that the cluster cannot run, and clusters without NCCL or RCCL, before anything is
// fitted.
absl::Status CalibrateSweep(const FromSweep& options);

}  // namespace twofold::calibrate
