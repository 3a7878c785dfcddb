// --set and --fabric: change a spec by field names.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/elsewhere.h"
#include "core/proto/fields.h"
#include "core/proto/other_names.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsWhole(absl::string_view value) {
  absl::ConsumePrefix(&value, "-");
  return !value.empty() && absl::c_all_of(value, absl::ascii_isdigit);
}

absl::Status WrongValue(const FieldDescriptor& field, absl::string_view value) {
  if (IsWhole(value)) return InvalidArgument("\"", value, "\" is not valid; use ", ExpectedRange(field));
  const auto* inner =
      field.message_type() == nullptr ? nullptr : field.message_type()->FindFieldByName(std::string(value));
  if (inner != nullptr && inner->message_type() != nullptr) {
    return InvalidArgument("\"", value, "\" is not valid; use a block, ", field.name(), "={ ", value, " { } }");
  }
  const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return InvalidArgument("\"", value, "\" is not valid; use ", text ? "text" : ExpectedValue(field));
}

// Removes the quotes of a string as written in a spec file; text without quotes is returned unchanged.
absl::string_view Unquoted(absl::string_view value) {
  const bool quoted =
      value.size() > 1 && value.front() == value.back() && (value.front() == '"' || value.front() == '\'');
  return quoted ? value.substr(1, value.size() - 2) : value;
}

// Appends to a repeated field, sets any other.
template <class T, class Set, class Add>
absl::Status Store(Message& m, const FieldDescriptor& field, T value, Set set, Add add) {
  const Reflection* r = m.GetReflection();
  field.is_repeated() ? (r->*add)(&m, &field, std::move(value)) : (r->*set)(&m, &field, std::move(value));
  return absl::OkStatus();
}

absl::Status StoreEnum(Message& m, const FieldDescriptor& field, absl::string_view value) {
  const auto* found = field.enum_type()->FindValueByName(std::string(value));
  if (found == nullptr) {
    return InvalidArgument("\"", value, "\" is not a value of this field", ValueSuggestion(std::string(value), field));
  }
  return Store(m, field, found, &Reflection::SetEnum, &Reflection::AddEnum);
}

// `list`: comma-separated blocks for a repeated field; else one block.
absl::Status StoreBlocks(Message& m, const FieldDescriptor& field, absl::string_view value, bool list) {
  if (!absl::StartsWith(value, "{") || !absl::EndsWith(value, "}")) return WrongValue(field, value);
  google::protobuf::TextFormat::Parser parser;
  struct : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string& text) override {
      if (message.empty()) message = text;
    }
    std::string message;
  } error;
  parser.RecordErrorsTo(&error);
  const std::string text = list ? StrCat(field.name(), ": [", value, "]") : StrCat(field.name(), " ", value);
  const std::unique_ptr<Message> parsed(m.New());
  std::vector<const FieldDescriptor*> written;
  const bool fine = parser.ParseFromString(text, parsed.get());
  m.GetReflection()->ListFields(*parsed, &written);
  if (fine && written.size() > 1) return WrongValue(field, value);  // "{ } other { }"
  if (fine) {
    m.GetReflection()->ClearField(&m, &field);
    m.MergeFrom(*parsed);
    return absl::OkStatus();
  }
  return InvalidArgument("\"", value, "\" is not valid: ", error.message, " Use ", ExpectedValue(field));
}

absl::Status StoreOne(Message& m, const FieldDescriptor& field, absl::string_view value) {
  int64_t whole = 0;
  int32_t small = 0;
  uint64_t natural = 0;
  double number = 0;
  bool flag = false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (!absl::SimpleAtoi(value, &small)) return WrongValue(field, value);
      return Store(m, field, small, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(value, &whole)) return WrongValue(field, value);
      return Store(m, field, whole, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!absl::SimpleAtoi(value, &natural)) return WrongValue(field, value);
      return Store(m, field, natural, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(value, &number)) return WrongValue(field, value);
      return Store(m, field, number, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!absl::SimpleAtob(value, &flag)) return WrongValue(field, value);
      return Store(m, field, flag, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return Store(m, field, std::string(Unquoted(value)), &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_ENUM: return StoreEnum(m, field, value);
    case FieldDescriptor::CPPTYPE_MESSAGE: return StoreBlocks(m, field, value, /*list=*/false);
    default: return WrongValue(field, value);  // no spec field has another type
  }
}

absl::Status StoreValue(Message& m, const FieldDescriptor& field, absl::string_view value) {
  if (!field.is_repeated()) return StoreOne(m, field, value);
  m.GetReflection()->ClearField(&m, &field);
  if (value.size() > 1 && value.front() == '[' && value.back() == ']')
    value = absl::StripAsciiWhitespace(value.substr(1, value.size() - 2));
  if (value.empty()) return absl::OkStatus();
  if (field.message_type() != nullptr) return StoreBlocks(m, field, value, /*list=*/true);
  for (absl::string_view element : absl::StrSplit(value, ',')) {
    if (absl::Status status = StoreOne(m, field, absl::StripAsciiWhitespace(element)); !status.ok()) {
      return InvalidArgument(status.message(), "; a list has commas between its elements: 8,16 or [8, 16]");
    }
  }
  return absl::OkStatus();
}

// Walks `path` from the root, choosing members of oneofs and creating blocks on the way.
absl::Status SetByPath(Message& root, const std::vector<std::string>& path, absl::string_view value) {
  Message* message = &root;
  for (size_t i = 0; i < path.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(path[i]);
    if (field == nullptr) {
      std::string known =
          StrCat(Suggestion(path[i], FieldNames(*message->GetDescriptor())), Elsewhere(*root.GetDescriptor(), path[i]));
      if (i == 0 && !absl::StrContains(known, "did you mean"))  // perhaps it lies deeper
        StrAppend(&known, "; `twofold spec ", path[i], "` looks for it in all blocks");
      return InvalidArgument("\"", path[i], "\" is not a field", known);
    }
    if (i + 1 == path.size()) return StoreValue(*message, *field, value);
    if (field->message_type() == nullptr) {
      return InvalidArgument("\"", path[i], "\" holds ", ExpectedValue(*field), ", not a block; end the path there");
    }
    if (field->is_repeated()) {
      return InvalidArgument("\"", path[i], "\" is a list of blocks; set all of it: ", path[i], "=[{ ... }, { ... }]");
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplySet(spec::Spec& spec, std::string_view text) {
  const absl::string_view assignment(text.data(), text.size());
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return InvalidArgument("--set ", Printable(text), ": needs the form path=value, such as train.steps=10");
  }
  const absl::string_view name = absl::StripAsciiWhitespace(assignment.substr(0, equals));
  const absl::string_view value = absl::StripAsciiWhitespace(assignment.substr(equals + 1));
  spec::Spec changed = spec;  // so that a refused assignment changes nothing
  if (name == "model.preset" || name == "model.hf_config") changed.clear_model();
  const std::vector<std::string> path = absl::StrSplit(name, '.');
  if (absl::Status status = SetByPath(changed, path, value); !status.ok()) {
    return InvalidArgument(Printable(std::string(StrCat("--set ", assignment, ": ", name, ": ", status.message()))));
  }
  if (const std::string odd = OddString(changed); !odd.empty()) {
    return InvalidArgument("--set ", Printable(text), ": ", odd, "; write text in UTF-8");
  }
  spec = std::move(changed);
  return absl::OkStatus();
}

absl::Status ApplyFabric(spec::Spec& spec, std::string_view name) {
  const google::protobuf::OneofDescriptor* kind = spec::Fabric::descriptor()->FindOneofByName("kind");
  std::vector<std::string> known;
  for (int i = 0; i < kind->field_count(); ++i) {
    const FieldDescriptor* field = kind->field(i);
    known.push_back(field->name());
    if (field->name() != name) continue;
    spec.mutable_fabric()->GetReflection()->MutableMessage(spec.mutable_fabric(), field);
    return absl::OkStatus();
  }
  return InvalidArgument("--fabric=", Printable(name), ": unknown fabric", Suggestion(name, known));
}

}  // namespace twofold
