#include "topologies/import/node_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/status.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/simgrid_xml.h"
#include "topologies/import/smi_matrix.h"
#include "topologies/import/xml_document.h"

namespace twofold {

std::string_view NodeFormatName(NodeFormat format) {
  static constexpr std::string_view kNames[] = {"nccl", "smi", "simgrid"};
  return kNames[static_cast<size_t>(format)];
}

absl::StatusOr<NodeFormat> FormatOf(std::string_view text, std::string_view file) {
  const size_t first = text.starts_with("\xef\xbb\xbf") ? 3 : text.find_first_not_of(" \t\r\n");
  if (first >= text.size()) return InvalidArgument(file, ": is empty");
  if (text[first] != '<') return NodeFormat::kSmi;
  const absl::StatusOr<XmlDocument> document = ReadXml(text, file);
  if (!document.ok()) return document.status();
  if (document->root().name == "system") return NodeFormat::kNccl;
  if (document->root().name == "platform") return NodeFormat::kSimgrid;
  return XmlError(file, document->root(), "",
                  "is neither an NCCL topology (<system>) nor a SimGrid platform (<platform>)");
}

absl::StatusOr<ImportedNode> ReadImportedNode(std::string_view text, std::string_view file,
                                              const ImportAssumptions& assumptions) {
  const absl::StatusOr<NodeFormat> format = FormatOf(text, file);
  if (!format.ok()) return format.status();
  switch (*format) {
    case NodeFormat::kNccl: {
      const absl::StatusOr<NcclXml> xml = ReadNcclXml(text, file);
      return xml.ok() ? NodeOf(*xml, assumptions) : xml.status();
    }
    case NodeFormat::kSimgrid: {
      const absl::StatusOr<SimgridXml> xml = ReadSimgridXml(text, file);
      return xml.ok() ? NodeOf(*xml, assumptions) : xml.status();
    }
    case NodeFormat::kSmi: break;
  }
  const absl::StatusOr<SmiMatrix> matrix = ReadSmiMatrix(text, file);
  return matrix.ok() ? NodeOf(*matrix, assumptions) : matrix.status();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const auto unreadable = [&path](std::string_view why) { return NotFound(path, ": cannot be read: ", why); };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return unreadable("it is a folder");
  errno = 0;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (size < 0) return unreadable(std::strerror(errno));
  if (size > kMostXmlBytes)
    return InvalidArgument(path, ": the file has ", size, " bytes; at most ", kMostXmlBytes, " are supported");
  std::string text(static_cast<size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(text.data(), size)) return unreadable(std::strerror(errno));
  return text;
}

absl::StatusOr<NodeType> ReadNodeFile(const std::string& path, const ImportAssumptions& assumptions) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<ImportedNode> imported = ReadImportedNode(*text, path, assumptions);
  if (!imported.ok()) return imported.status();
  return std::move(imported->node);
}

}  // namespace twofold
