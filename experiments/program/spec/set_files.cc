#include "experiments/program/spec/set_files.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_join.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

// As --set takes it. Strings are quoted, but not escaped.
std::string ElementText(const Message& m, const FieldDescriptor& field, int index) {
  const google::protobuf::Reflection& r = *m.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return StrCat("\"", index < 0 ? r.GetString(m, &field) : r.GetRepeatedString(m, &field, index), "\"");
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintFieldValueToString(m, &field, index, &text);
  return field.message_type() != nullptr ? StrCat("{ ", text, "}") : text;
}

std::string ListText(const Message& m, const FieldDescriptor& field) {
  std::vector<std::string> elements;
  for (int i = 0; i < m.GetReflection()->FieldSize(m, &field); ++i) elements.push_back(ElementText(m, field, i));
  return StrCat("[", absl::StrJoin(elements, ", "), "]");
}

absl::Status AddSettings(const Message& m, const std::string& prefix, const std::string& file,
                         std::vector<Setting>& settings) {
  std::vector<const FieldDescriptor*> fields;
  m.GetReflection()->ListFields(m, &fields);
  if (fields.empty() && !prefix.empty()) {
    settings.push_back({StrCat(prefix, "={}"), file});
    return absl::OkStatus();
  }
  for (const FieldDescriptor* field : fields) {
    const std::string path = StrCat(prefix, prefix.empty() ? "" : ".", field->name());
    if (field->is_repeated()) {
      for (int i = 0; field->type() == FieldDescriptor::TYPE_STRING && i < m.GetReflection()->FieldSize(m, field);
           ++i) {
        if (const std::string text = m.GetReflection()->GetRepeatedString(m, field, i); text.find(',') != text.npos)
          return InvalidArgument(file, ": ", path, "[", i, "]: \"", text,
                                 "\" has a comma; state it in the spec itself");
      }
      settings.push_back({StrCat(path, "=", ListText(m, *field)), file});
    } else if (field->message_type() != nullptr) {
      const Message& block = m.GetReflection()->GetMessage(m, field);
      if (absl::Status status = AddSettings(block, path, file, settings); !status.ok()) return status;
    } else {
      settings.push_back({StrCat(path, "=", ElementText(m, *field, -1)), file});
    }
  }
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& file, std::vector<Setting>& settings) {
  const absl::StatusOr<std::string> text = ReadSpecText(file);
  if (!text.ok()) return InvalidArgument("--set=@", text.status().message());
  const absl::StatusOr<spec::Spec> spec = ParseSpec(*text, file);
  return spec.ok() ? AddSettings(*spec, "", file, settings) : spec.status();
}

}  // namespace

absl::StatusOr<std::vector<Setting>> ReadSets(absl::Span<const std::string> sets) {
  std::vector<Setting> settings;
  for (const std::string& set : sets) {
    if (!set.starts_with('@')) {
      settings.push_back({set, StrCat("--set ", Printable(set))});
    } else if (absl::Status status = AddFile(set.substr(1), settings); !status.ok()) {
      return status;
    }
  }
  return settings;
}

absl::StatusOr<std::vector<std::string>> ExpandSets(absl::Span<const std::string> sets) {
  const absl::StatusOr<std::vector<Setting>> settings = ReadSets(sets);
  if (!settings.ok()) return settings.status();
  std::vector<std::string> assignments;
  for (const Setting& setting : *settings) assignments.push_back(setting.assignment);
  return assignments;
}

}  // namespace twofold
