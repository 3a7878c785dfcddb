// XML files as values that can be read, changed and written back. Parsed by libxml2.
//
// Kept: elements, attributes in their order, text that is not blank, comments, processing instructions, the document
// type's name and identifiers. Not kept: blanks between elements, the kind of quotes, how characters were escaped,
// CDATA marks (the content is kept as text). Refused: definitions inside a document type and references to entities,
// because hostile files use them.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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
  std::string name;  // of elements and processing instructions
  std::string text;  // of all other nodes, and of processing instructions
  std::vector<XmlAttribute> attributes;
  std::vector<XmlNode> children;
  int line = 0;  // where it begins in the file; not compared

  const std::string* Find(std::string_view attribute) const;  // null: absent
  std::string Get(std::string_view attribute, std::string_view otherwise = "") const;
  auto Elements() const {  // children that are elements
    return children | std::views::filter([](const XmlNode& n) { return n.kind == kElement; });
  }
  bool operator==(const XmlNode& other) const;  // compares everything except line numbers
};

struct XmlDocument {
  std::string file;                                 // for messages; not compared
  bool declared = false;                            // begins with <?xml ... ?>
  std::string type_name, type_public, type_system;  // of <!DOCTYPE ...>; empty if absent
  std::vector<XmlNode> nodes;                       // one element, with the comments and instructions around it
  const XmlNode& root() const;
  bool operator==(const XmlDocument& other) const;
};

// Errors: "file:line: what is wrong".
absl::StatusOr<XmlDocument> ReadXml(std::string_view text, std::string_view file);
// UTF-8, two spaces per level, double quotes, as in NCCL's dumps. ReadXml of the result gives an equal document.
std::string WriteXml(const XmlDocument& document);

// The attributes that an element must have and the elements that it may contain, separated by blanks.
struct XmlRule {
  absl::string_view name, required, children;
  bool text = false;  // it may contain text
};

// Checks all elements of a document, outer ones first: required attributes, then what `check` finds, then their
// children. An element without a rule may have any attributes and no children.
absl::Status CheckElements(const XmlDocument& document, std::span<const XmlRule> rules,
                           absl::FunctionRef<absl::Status(const XmlNode&)> check);

// InvalidArgument, "file:line: <element> attribute = "value": what is wrong"; without an attribute "file:line:
// <element>: ...".
absl::Status XmlError(std::string_view file, const XmlNode& element, std::string_view attribute, std::string_view what);

}  // namespace twofold
