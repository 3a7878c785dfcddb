// A file that describes a node, whatever wrote it: for cluster.proto's Node.file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topologies/import/imported_node.h"

namespace twofold {

enum class NodeFormat { kNccl, kSmi, kSimgrid };
std::string_view NodeFormatName(NodeFormat format);  // "nccl", "smi", "simgrid": as `twofold topology import --from`

// By content: XML is NCCL's (<system>) or SimGrid's (<platform>), anything else the text of `nvidia-smi topo -m`.
absl::StatusOr<NodeFormat> FormatOf(std::string_view text, std::string_view file);

absl::StatusOr<ImportedNode> ReadImportedNode(std::string_view text, std::string_view file, const ImportAssumptions& assumptions = {});

// The same of a file; errors begin with its path.
absl::StatusOr<NodeType> ReadNodeFile(const std::string& path, const ImportAssumptions& assumptions = {});

// The whole of a file; NotFound where it cannot be read, InvalidArgument where it is larger than any importer reads.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace twofold
