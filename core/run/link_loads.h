// What the links of a simulated network carry over time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/network.pb.h"

namespace twofold {

// From the first traced step on, in bins of equal width. Empty if nothing was recorded.
struct LinkLoads {
  struct Flow {                    // what a link carries of one operation of one group
    std::string operation, group;  // both empty: flows that had begun before the traced steps
    int64_t phases = 0;            // of calls: how often flows over the link began
    double bytes = 0;
  };
  struct Row {
    std::string link, kind;     // the name of one of the links; what it joins: "NIC to switch"
    int64_t links = 1;          // that carry the same at the same time
    double bandwidth = 0;       // of each, in bytes per second
    std::vector<double> bytes;  // of each, by bin; those at the end that are 0 are left out
    std::vector<Flow> flows;    // of each, those with the most bytes first
  };
  double begin = 0, width = 0;  // seconds, by the ranks' clocks; width: of a bin
  std::vector<Row> rows;        // the busiest first: by bytes over bandwidth
  int64_t left_out = 0;         // links that carried something and are in no row
  int64_t idle = 0;             // links that carried nothing
  network::Pictures pictures;   // of all links, with the same bins
};

}  // namespace twofold
