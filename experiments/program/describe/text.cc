#include "experiments/program/describe/text.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "experiments/program/cli/wrap.h"

namespace twofold {
namespace {

constexpr size_t kIndent = 4, kValueIndent = 6;

// "whole number, from 1 to 65536"; values have lines of their own if they mean something.
std::string Kind(const SpecField& field) {
  const bool explained = std::any_of(field.values.begin(), field.values.end(),
                                     [](const NamedValue& value) { return !value.meaning.empty(); });
  std::string kind = explained ? "one of these values" : TypeText(field);
  if (const std::string range = RangeText(field.range); !range.empty()) StrAppend(&kind, ", ", range);
  return kind;
}

std::string Values(const SpecField& field, size_t width) {
  size_t longest = 0;
  for (const NamedValue& value : field.values)
    if (!value.meaning.empty()) longest = std::max(longest, value.name.size());
  if (longest == 0) return "";
  const size_t column = kValueIndent + longest + 2;
  std::string text;
  for (const NamedValue& value : field.values) {
    std::string left = StrCat(std::string(kValueIndent, ' '), value.name);
    if (!value.meaning.empty()) left.resize(column, ' ');
    StrAppend(&text, left, Filled(value.meaning, width, column, column), "\n");
  }
  return text;
}

std::string Paragraph(const std::string& text, size_t width) {
  return StrCat(std::string(kIndent, ' '), Filled(text, width, kIndent, kIndent), "\n");
}

std::string Others(const SpecField& field) {
  std::vector<std::string> names;
  for (const std::string& path : field.excludes)
    if (path != field.path) names.push_back(path.substr(path.rfind('.') + 1));
  return absl::StrJoin(names, ", ");
}

std::string FieldText(const SpecField& field, size_t width, bool colour) {
  const std::string fallback = DefaultText(*field.field);
  const std::string value = field.field->message_type() != nullptr ? " { }" : "";
  std::string text = StrCat(colour ? "\033[1m" : "", field.path, colour ? "\033[0m" : "", value,
                            fallback.empty() ? "" : StrCat(" = ", fallback), "  (", Kind(field), ")\n");
  if (!field.block_meaning.empty()) StrAppend(&text, Paragraph(field.block_meaning, width));
  StrAppend(&text, Paragraph(field.meaning, width));
  StrAppend(&text, Values(field, width));
  if (const std::string others = Others(field); !others.empty())
    StrAppend(&text, Paragraph(StrCat("Excludes ", others, "."), width));
  return text;
}

}  // namespace

std::string FieldsText(const std::vector<const SpecField*>& fields, size_t width, bool colour) {
  std::string text;
  for (const SpecField* field : fields) StrAppend(&text, FieldText(*field, width, colour));
  return text;
}

}  // namespace twofold
