#include "experiments/spec/fields.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Insertions, deletions and replacements that lead from a to b (Wagner and Fischer 1974), one row kept.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string Suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string wanted = absl::AsciiStrToLower(std::string(name.substr(0, 64)));
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : known) {
    const std::string lower = absl::AsciiStrToLower(candidate);
    const size_t distance = EditDistance(wanted, lower);
    const bool part = wanted.size() >= 3 && lower.find(wanted) != std::string::npos;
    if (distance <= (wanted.size() + 2) / 3 || part) near.emplace_back(distance, candidate);
  }
  const std::string all = StrCat("known: ", absl::StrJoin(known, ", "));
  if (near.empty()) return StrCat("; ", all);
  std::sort(near.begin(), near.end());
  near.resize(std::min<size_t>(near.size(), 3));
  return StrCat(
      "; did you mean ",
      absl::StrJoin(near, " or ", [](std::string* out, const auto& entry) { StrAppend(out, entry.second); }),
      "? (", all, ")");
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return names;
}

std::string ExpectedValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number, 0 or more";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text in double quotes";
    case FieldDescriptor::CPPTYPE_ENUM:
      return StrCat("one of ", absl::StrJoin(ValueNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const std::vector<std::string> names = FieldNames(*field.message_type());
      return names.empty() ? "an empty block { }" : StrCat("a block { ... } of ", absl::StrJoin(names, ", "));
    }
  }
  return "another value";
}

const FieldDescriptor* FindField(const Descriptor& root, std::span<const std::string> path) {
  const Descriptor* message = &root;
  const FieldDescriptor* field = nullptr;
  for (const std::string& name : path) {
    field = message == nullptr ? nullptr : message->FindFieldByName(name);
    if (field == nullptr) return nullptr;
    message = field->message_type();
  }
  return field;
}

std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

}  // namespace twofold
