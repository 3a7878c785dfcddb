// A file that describes a node, in any supported format: for Node.file of cluster.proto.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topologies/import/imported_node.h"

namespace twofold {

enum class NodeFormat { kNccl, kSmi, kSimgrid };
// "nccl", "smi", "simgrid": the values of `twofold topology import --from`
std::string_view NodeFormatName(NodeFormat format);

// Detected from the content: XML is NCCL's (<system>) or SimGrid's (<platform>); anything else is the output of
// `nvidia-smi topo -m`.
absl::StatusOr<NodeFormat> FormatOf(std::string_view text, std::string_view file);

absl::StatusOr<ImportedNode> ReadImportedNode(std::string_view text, std::string_view file,
                                              const ImportAssumptions& assumptions = {});

// Reads the node from a file; errors begin with its path.
absl::StatusOr<NodeType> ReadNodeFile(const std::string& path, const ImportAssumptions& assumptions = {});

// The content of a file. NotFound if it cannot be read, InvalidArgument if it is larger than any importer accepts.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace twofold
