// XML files as values: all that they hold, to be looked at, changed and written again. Parsed by libxml2.
//
// Kept: elements, attributes in their order, text that is not blank, comments, processing instructions, the document type's
// name and identifiers. Not kept: blank space between elements, which quotes were used, how characters were escaped, CDATA
// marks (it is text). Refused: definitions inside a document type and references to entities, as hostile files use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold {

inline constexpr int64_t kMostXmlBytes = 64 << 20;
inline constexpr int64_t kMostXmlNodes = 2'000'000;  // elements, texts and comments
inline constexpr int kMostXmlDepth = 100;

struct XmlAttribute {
  std::string name, value;
  bool operator==(const XmlAttribute&) const = default;
};

struct XmlNode {
  enum Kind { kElement, kText, kComment, kInstruction };
  Kind kind = kElement;
  std::string name;  // of elements and instructions
  std::string text;  // of the others, and the instruction
  std::vector<XmlAttribute> attributes;
  std::vector<XmlNode> children;
  int line = 0;  // where it begins in the file; not compared

  const std::string* Find(std::string_view attribute) const;  // null: absent
  bool operator==(const XmlNode& other) const;                // all but lines
};

struct XmlDocument {
  std::string file;        // for messages; not compared
  bool declared = false;   // begins with <?xml ... ?>
  std::string type_name, type_public, type_system;  // of <!DOCTYPE ...>; empty: none
  std::vector<XmlNode> nodes;  // one element, and comments and instructions around it
  const XmlNode& root() const;
  bool operator==(const XmlDocument& other) const;
};

// Errors: "file:line: what is wrong".
absl::StatusOr<XmlDocument> ReadXml(std::string_view text, std::string_view file);
// UTF-8, two spaces a level, double quotes: the form in which NCCL writes its dumps. ReadXml of it gives an equal document.
std::string WriteXml(const XmlDocument& document);

// "file:line: <element> attribute = "value": what is wrong", as InvalidArgument; without attribute "file:line: <element>: ...".
absl::Status XmlError(std::string_view file, const XmlNode& element, std::string_view attribute, std::string_view what);

}  // namespace twofold
