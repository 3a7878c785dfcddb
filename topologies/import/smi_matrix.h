// A node as `nvidia-smi topo -m` prints it: a matrix of what lies between every two GPUs and NICs.
//
//             GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
//     GPU0     X      NV18    PIX     0-55,112-167    0               N/A
//     GPU1    NV18     X      NODE    0-55,112-167    0               N/A
//     NIC0    PIX     NODE     X
//
//     Legend: ...                         NIC Legend:   NIC0: mlx5_0
//
// Kept whole: names, relations, affinities, both legends and any other line. Not kept: which blank space parted the columns
// (it is written as nvidia-smi does, with tabs) and the escape codes that underline the head on a terminal.
#pragma once

#include <string>
#include <string_view>
#include <utility>
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
    std::vector<std::string> affinities;  // by column of `affinity_columns`, as far as the row goes
    bool operator==(const Row&) const = default;
  };
  std::string file;                           // for messages; not compared
  std::vector<std::string> before;            // lines above the matrix
  std::vector<std::string> affinity_columns;  // of "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
  std::vector<Row> rows;                      // columns have the rows' names
  std::vector<std::string> after;             // lines below the matrix: the legends, with blank lines
  bool operator==(const SmiMatrix& other) const;
  // "mlx5_0" of NIC0, by the legend; the name itself where there is none.
  std::string InterfaceOf(std::string_view nic) const;
};

absl::StatusOr<SmiMatrix> ReadSmiMatrix(std::string_view text, std::string_view file);
std::string WriteSmiMatrix(const SmiMatrix& matrix);

// The text tells kinds of paths, not rates; `assumptions` has those, and what was assumed is in the notes.
//   NV#   # NVLinks. Where some GPU would have more than 18 of them (no GPU has), every GPU has # to one NVSwitch;
//         else they are direct. PIX, PXB: one, or several PCIe switches; PHB: one host bridge; NODE: one NUMA domain;
//         SYS: between NUMA domains. Kinds nest: whatever two things are PIX to a third are PIX to one another, and so on.
//         GPUs whose relation NV# hides stand where NICs and affinities put them.
// Refuses matrices that contradict themselves (A PIX B, B PIX C, A SYS C).
absl::StatusOr<ImportedNode> NodeOf(const SmiMatrix& matrix, const ImportAssumptions& assumptions = {});

}  // namespace twofold
