// A node as `nvidia-smi topo -m` prints it: a matrix of the kinds of paths between GPUs and NICs.
//
//             GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
//     GPU0     X      NV18    PIX     0-55,112-167    0               N/A
//     GPU1    NV18     X      NODE    0-55,112-167    0               N/A
//     NIC0    PIX     NODE     X
//
//     Legend: ...                         NIC Legend:   NIC0: mlx5_0
//
// What `nvidia-smi -L` prints may stand above or below it, and names the GPUs: "GPU 0: NVIDIA H100 80GB HBM3 (UUID:
// ...)".
//
// Kept: names, relations, affinities, both legends and any other line. Not kept: the original blanks between columns
// (they are written as tabs, as nvidia-smi does) and the escape codes that underline the header on a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "topologies/import/imported_node.h"

namespace twofold {

inline constexpr int kMostSmiDevices = 256;  // GPUs and NICs together
inline constexpr int kMostSmiBytes = 4 << 20;

struct SmiMatrix {
  struct Row {
    std::string name;
    std::vector<std::string> relations;   // by column: "X", "NV12", "PIX", "PXB", "PHB", "NODE" or "SYS"
    std::vector<std::string> affinities;  // by column of `affinity_columns`; shorter if the row is
    bool operator==(const Row&) const = default;
  };
  std::string file;                           // for messages; not compared
  std::vector<std::string> before;            // lines above the matrix
  std::vector<std::string> affinity_columns;  // a subset of "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
  std::vector<Row> rows;                      // the columns have the same names as the rows
  std::vector<std::string> after;             // lines below the matrix: the legends, with blank lines
  bool operator==(const SmiMatrix& other) const;
  // "mlx5_0" for NIC0, according to the legend; the name itself if the legend does not list it.
  std::string InterfaceOf(std::string_view nic) const;
  // The names of the GPUs, each once, in the order of the lines of `nvidia-smi -L`.
  std::vector<std::string> GpuNames() const;
};

absl::StatusOr<SmiMatrix> ReadSmiMatrix(std::string_view text, std::string_view file);
std::string WriteSmiMatrix(const SmiMatrix& matrix);

// The text contains kinds of paths but no rates; the rates come from `assumptions` or follow from the GPUs' name, and
// the notes list what was assumed. If the GPUs have several names, the first one counts, and a note says so.
//   NV#   # NVLinks. If some GPU would then have more than 18 NVLinks (no GPU has), every GPU has # to one NVSwitch;
//         otherwise they are direct. PIX: one PCIe switch; PXB: several PCIe switches; PHB: one host bridge; NODE: one
//         NUMA domain; SYS: between NUMA domains. Kinds nest: two devices that are both PIX to a third are PIX to each
//         other, and so on. GPUs whose relation is hidden by NV# are placed according to NICs and affinities.
// Refuses contradictory matrices (A PIX B, B PIX C, A SYS C).
absl::StatusOr<ImportedNode> NodeOf(const SmiMatrix& matrix, const ImportAssumptions& assumptions = {});

}  // namespace twofold
