// The subcommands of `twofold topology`, and what they may be given. Each returns INTERNAL if its output cannot be
// written, and another error if its input is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace twofold::topology {

struct Options {
  std::string cluster, out, from, to, device, name;
  std::optional<int64_t> nodes;       // absent: all nodes
  std::optional<double> nic_gbits;    // of an imported node's NICs; absent: as its file states
  std::optional<double> pcie_gbytes;  // of an imported matrix's PCIe links; absent: by --device or the GPUs' name
  bool json = false;
};

absl::Status Show(const Options& o);    // draws a cluster, and prints its figures
absl::Status List(const Options& o);    // prints the figures of the catalogue
absl::Status Import(const Options& o);  // makes a cluster's file from the description of a node or platform
absl::Status Export(const Options& o);  // writes a cluster as a file to edit, or for other programs

}  // namespace twofold::topology
