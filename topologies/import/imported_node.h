// The result of importing a node description.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "topologies/graph/cluster_topology.h"

namespace twofold {

// Figures that these files do not contain. Rates are in bytes per second each way.
struct ImportAssumptions {
  Seconds nvlink_latency = Microseconds(0.5);  // of one cable
  Seconds pcie_latency = Microseconds(0.3);    // of one hop in a PCIe tree; a switch takes 0.1 to 0.2
  Seconds socket_latency = Microseconds(0.2);  // between sockets, and between parts of one socket
  // For `nvidia-smi topo -m`, which shows only the kinds of paths. Absent: those of the GPUs that the text names
  // (gpu_names.h), else those of A100.
  std::optional<BytesPerSecond> nvlink;  // of each bonded link
  std::optional<BytesPerSecond> pcie;    // of 16 lanes, as it is reached in practice
  BytesPerSecond within_socket{64e9};    // between host bridges of one NUMA domain (NODE)
  BytesPerSecond sockets{22e9};          // between NUMA domains (SYS): NCCL's value for Sapphire Rapids
};

struct ImportedNode {
  NodeType node;
  std::vector<BytesPerSecond> nic_speeds;  // by NIC: the rate of its port; 0 if the file does not say
  std::vector<std::string> notes;          // what was assumed or left out
  std::string gpu;                         // the name of the GPUs, where nvidia-smi's text has it
};

}  // namespace twofold
