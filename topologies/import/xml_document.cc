#include "topologies/import/xml_document.h"

#include <libxml/parser.h>
#include <libxml/tree.h>

#include <algorithm>
#include <climits>
#include <memory>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::string_view View(const xmlChar* text) { return text == nullptr ? "" : reinterpret_cast<const char*>(text); }

bool Blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Removes the newline at the end of libxml2's messages.
std::string Message(const xmlError* error) {
  std::string text(error == nullptr || error->message == nullptr ? "not XML" : error->message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Copies libxml2's tree; the number and the depth of nodes are limited.
class Copier {
 public:
  Copier(std::string_view file, XmlDocument& to) : file_(file), to_(to) {}

  absl::Status Copy(const xmlDoc& from) {
    for (const xmlNode* n = from.children; n != nullptr; n = n->next) {
      if (n->type == XML_DTD_NODE) {
        if (absl::Status s = CopyType(*reinterpret_cast<const xmlDtd*>(n)); !s.ok()) return s;
      } else if (absl::Status s = CopyNode(*n, to_.nodes, 1); !s.ok()) {
        return s;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(long line, const auto&... what) { return InvalidArgument(file_, ":", line, ": ", what...); }

  absl::Status CopyType(const xmlDtd& type) {
    if (type.children != nullptr) {
      return Refuse(1, "the document type contains definitions; refer to it with SYSTEM only, or leave it out");
    }
    to_.type_name = View(type.name);
    to_.type_public = View(type.ExternalID);
    to_.type_system = View(type.SystemID);
    return absl::OkStatus();
  }

  absl::Status CopyNode(const xmlNode& from, std::vector<XmlNode>& to, int depth) {
    const long line = xmlGetLineNo(&from);
    XmlNode node;
    node.line = static_cast<int>(std::clamp(line, 0L, static_cast<long>(INT_MAX)));
    switch (from.type) {
      case XML_TEXT_NODE:
      case XML_CDATA_SECTION_NODE: return CopyText(View(from.content), node.line, to);
      case XML_COMMENT_NODE:
        node.kind = XmlNode::kComment;
        node.text = View(from.content);
        break;
      case XML_PI_NODE:
        node.kind = XmlNode::kInstruction;
        node.name = View(from.name);
        node.text = View(from.content);
        break;
      case XML_ELEMENT_NODE:
        if (absl::Status s = CopyElement(from, node, depth); !s.ok()) return s;
        break;
      default:
        return Refuse(line, "\"", View(from.name), "\" is not an element, text or comment; entities are not supported");
    }
    if (++count_ > kMostXmlNodes)
      return Refuse(line, "the document has more than ", kMostXmlNodes, " elements, texts and comments");
    to.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status CopyText(std::string_view text, int line, std::vector<XmlNode>& to) {
    if (!to.empty() && to.back().kind == XmlNode::kText) {  // adjacent texts, which CDATA marks separated
      to.back().text += text;
    } else {
      to.push_back({.kind = XmlNode::kText, .text = std::string(text), .line = line});
      ++count_;
    }
    return absl::OkStatus();
  }

  absl::Status CopyElement(const xmlNode& from, XmlNode& node, int depth) {
    if (depth > kMostXmlDepth) return Refuse(node.line, "elements are nested more than ", kMostXmlDepth, " deep");
    if (from.ns != nullptr || from.nsDef != nullptr)
      return Refuse(node.line, "namespaces (xmlns) are not supported; leave them out");
    node.name = View(from.name);
    for (const xmlAttr* a = from.properties; a != nullptr; a = a->next) {
      if (a->ns != nullptr) return Refuse(node.line, "attribute ", View(a->name), " has a namespace; leave it out");
      std::string value;
      for (const xmlNode* part = a->children; part != nullptr; part = part->next) {
        if (part->type != XML_TEXT_NODE)
          return Refuse(node.line, "attribute ", View(a->name), " refers to an entity; entities are not supported");
        value += View(part->content);
      }
      node.attributes.push_back({std::string(View(a->name)), std::move(value)});
    }
    for (const xmlNode* child = from.children; child != nullptr; child = child->next) {
      if (absl::Status s = CopyNode(*child, node.children, depth + 1); !s.ok()) return s;
    }
    std::erase_if(node.children, [](const XmlNode& n) { return n.kind == XmlNode::kText && Blank(n.text); });
    return absl::OkStatus();
  }

  const std::string_view file_;
  XmlDocument& to_;
  int64_t count_ = 0;
};

// Escapes characters that a reader would take for markup or normalise.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\r", "&#13;"}});
}
std::string EscapedAttribute(const std::string& text) {
  return absl::StrReplaceAll(Escaped(text), {{"\"", "&quot;"}, {"\n", "&#10;"}, {"\t", "&#9;"}});
}

// `inline_`: inside text, where added blanks would change the content.
void Write(const XmlNode& node, int indent, bool inline_, std::string& out) {
  if (!inline_) out.append(static_cast<size_t>(2 * indent), ' ');
  switch (node.kind) {
    case XmlNode::kText: out += Escaped(node.text); break;
    case XmlNode::kComment: StrAppend(&out, "<!--", node.text, "-->"); break;
    case XmlNode::kInstruction: StrAppend(&out, "<?", node.name, node.text.empty() ? "" : " ", node.text, "?>"); break;
    case XmlNode::kElement: {
      StrAppend(&out, "<", node.name);
      for (const XmlAttribute& a : node.attributes) {
        StrAppend(&out, " ", a.name, "=\"", EscapedAttribute(a.value), "\"");
      }
      if (node.children.empty()) {
        out += "/>";
        break;
      }
      const bool text = inline_ || std::any_of(node.children.begin(), node.children.end(),
                                               [](const XmlNode& n) { return n.kind == XmlNode::kText; });
      out += text ? ">" : ">\n";
      for (const XmlNode& child : node.children) Write(child, indent + 1, text, out);
      if (!text) out.append(static_cast<size_t>(2 * indent), ' ');
      StrAppend(&out, "</", node.name, ">");
    }
  }
  if (!inline_) out += '\n';
}

}  // namespace

const std::string* XmlNode::Find(std::string_view attribute) const {
  for (const XmlAttribute& a : attributes) {
    if (a.name == attribute) return &a.value;
  }
  return nullptr;
}

std::string XmlNode::Get(std::string_view attribute, std::string_view otherwise) const {
  const std::string* value = Find(attribute);
  return value == nullptr ? std::string(otherwise) : *value;
}

bool XmlNode::operator==(const XmlNode& other) const {
  return kind == other.kind && name == other.name && text == other.text && attributes == other.attributes &&
         children == other.children;
}

const XmlNode& XmlDocument::root() const {
  const auto element =
      std::find_if(nodes.begin(), nodes.end(), [](const XmlNode& n) { return n.kind == XmlNode::kElement; });
  TWOFOLD_CHECK(element != nodes.end(), "a document has one element");
  return *element;
}

bool XmlDocument::operator==(const XmlDocument& other) const {
  return declared == other.declared && type_name == other.type_name && type_public == other.type_public &&
         type_system == other.type_system && nodes == other.nodes;
}

absl::StatusOr<XmlDocument> ReadXml(std::string_view text, std::string_view file) {
  if (static_cast<int64_t>(text.size()) > kMostXmlBytes) {
    return InvalidArgument(file, ": the file has ", text.size(), " bytes; at most ", kMostXmlBytes, " are supported");
  }
  [[maybe_unused]] static const bool ready = (xmlInitParser(), true);
  const std::unique_ptr<xmlParserCtxt, void (*)(xmlParserCtxtPtr)> context(xmlNewParserCtxt(), xmlFreeParserCtxt);
  TWOFOLD_CHECK(context != nullptr, "libxml2 has memory");
  const std::unique_ptr<xmlDoc, void (*)(xmlDocPtr)> tree(
      xmlCtxtReadMemory(context.get(), text.data(), static_cast<int>(text.size()), nullptr, nullptr,
                        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING),
      xmlFreeDoc);
  if (tree == nullptr || !context->wellFormed) {
    const xmlError* error = xmlCtxtGetLastError(context.get());
    return InvalidArgument(file, ":", error == nullptr ? 1 : error->line, ": ", Message(error));
  }
  XmlDocument document{.file = std::string(file)};
  document.declared = text.starts_with("<?xml") || text.starts_with("\xef\xbb\xbf<?xml");
  if (absl::Status s = Copier(file, document).Copy(*tree); !s.ok()) return s;
  return document;
}

namespace {

class ElementChecker {
 public:
  ElementChecker(std::string_view file, std::span<const XmlRule> rules,
                 absl::FunctionRef<absl::Status(const XmlNode&)> check)
      : file_(file), rules_(rules), check_(check) {}

  absl::Status Check(const XmlNode& at) const {
    const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const XmlRule& r) { return r.name == at.name; });
    const XmlRule rule = found == rules_.end() ? XmlRule{} : *found;
    const auto required = absl::StrSplit(rule.required, ' ', absl::SkipEmpty());
    const auto children = absl::StrSplit(rule.children, ' ', absl::SkipEmpty());
    for (const absl::string_view name : required) {
      if (at.Find(std::string(name)) == nullptr)
        return Error(at, std::string(name), "missing; <", at.name, "> needs ", absl::StrJoin(required, ", "));
    }
    if (absl::Status s = check_(at); !s.ok()) return s;
    for (const XmlNode& child : at.children) {
      if (child.kind == XmlNode::kText && !rule.text)
        return Error(at, "", "contains text (\"", child.text.substr(0, 40), "\"); use attributes instead");
      if (child.kind != XmlNode::kElement) continue;
      if (rule.children.empty()) return Error(child, "", "<", at.name, "> cannot contain elements");
      if (std::find(children.begin(), children.end(), child.name) == children.end()) {
        return Error(child, "", "is not allowed in <", at.name, ">, which can contain ", absl::StrJoin(children, ", "));
      }
      if (absl::Status s = Check(child); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(const XmlNode& at, std::string_view attribute, const auto&... what) const {
    return XmlError(file_, at, attribute, StrCat(what...));
  }

  const std::string_view file_;
  const std::span<const XmlRule> rules_;
  const absl::FunctionRef<absl::Status(const XmlNode&)> check_;
};

}  // namespace

absl::Status CheckElements(const XmlDocument& document, std::span<const XmlRule> rules,
                           absl::FunctionRef<absl::Status(const XmlNode&)> check) {
  return ElementChecker(document.file, rules, check).Check(document.root());
}

std::string WriteXml(const XmlDocument& document) {
  std::string out;
  if (document.declared) out += "<?xml version=\"1.0\"?>\n";
  for (const XmlNode& node : document.nodes) {
    if (node.kind == XmlNode::kElement && !document.type_name.empty()) {
      const std::string_view quote = document.type_system.find('"') == std::string::npos ? "\"" : "'";
      StrAppend(&out, "<!DOCTYPE ", document.type_name);
      if (!document.type_public.empty()) StrAppend(&out, " PUBLIC \"", document.type_public, "\"");
      if (document.type_public.empty() && !document.type_system.empty()) out += " SYSTEM";
      if (!document.type_public.empty() || !document.type_system.empty())
        StrAppend(&out, " ", quote, document.type_system, quote);
      out += ">\n";
    }
    Write(node, 0, false, out);
  }
  return out;
}

absl::Status XmlError(std::string_view file, const XmlNode& element, std::string_view attribute,
                      std::string_view what) {
  std::string where = StrCat(file, ":", element.line, ": <", element.name, ">");
  if (!attribute.empty()) {
    const std::string* value = element.Find(attribute);
    StrAppend(&where, " ", attribute);
    if (value != nullptr)
      StrAppend(&where, " = \"", value->size() > 80 ? StrCat(value->substr(0, 80), "...") : *value, "\"");
  }
  return InvalidArgument(where, ": ", what);
}

}  // namespace twofold
