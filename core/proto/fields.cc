#include "core/proto/fields.h"

#include <charconv>
#include <limits>
#include <optional>

#include "absl/strings/str_join.h"
#include "core/base/printable.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"

namespace twofold {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

bool Takes(const FieldDescriptor& field, int value) {
  if (field.enum_type() != spec::DType_descriptor()) return true;
  const bool statistics =
      &field == spec::Precision::descriptor()->FindFieldByNumber(spec::Precision::kBufferFieldNumber);
  const bool narrow = value == spec::BF16 || value == spec::F16;
  return value != spec::I32 && value != spec::U8 && !(statistics && narrow);
}

// As OddString, for one element of a field of `m`. index is -1 if the field is not repeated.
std::string OddElement(const Message& m, const FieldDescriptor& field, int index) {
  const google::protobuf::Reflection& r = *m.GetReflection();
  if (field.message_type() != nullptr) {
    const std::string odd = OddString(index < 0 ? r.GetMessage(m, &field) : r.GetRepeatedMessage(m, &field, index));
    return odd.empty() ? "" : StrCat(".", odd);
  }
  if (field.type() != FieldDescriptor::TYPE_STRING) return "";
  const std::string text = index < 0 ? r.GetString(m, &field) : r.GetRepeatedString(m, &field, index);
  const std::optional<Odd> odd = FirstOdd(text);
  return odd ? StrCat(": \"", Printable(text, ""), "\": ", odd->text) : "";
}

}  // namespace

std::string OddString(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      const std::string odd = OddElement(message, *field, field->is_repeated() ? i : -1);
      if (!odd.empty()) return StrCat(field->name(), field->is_repeated() ? StrCat("[", i, "]") : "", odd);
    }
  }
  return "";
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  const google::protobuf::EnumDescriptor& type = *field.enum_type();
  for (int i = 0; i < type.value_count(); ++i) {
    if (Takes(field, type.value(i)->number())) names.push_back(type.value(i)->name());
  }
  return names;
}

std::string ExpectedValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64: return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64: return "a whole number, 0 or more";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: return "a number";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "text in double quotes";
    case FieldDescriptor::CPPTYPE_ENUM: return StrCat("one of ", absl::StrJoin(ValueNames(field), ", "));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const std::vector<std::string> names = FieldNames(*field.message_type());
      return names.empty() ? "an empty block { }"
                           : StrCat("a block { ... } with the fields ", absl::StrJoin(names, ", "));
    }
  }
  return "another value";
}

std::string ExpectedRange(const FieldDescriptor& field) {
  const auto range = [](auto type) {
    return StrCat("a whole number from ", std::numeric_limits<decltype(type)>::min(), " to ",
                  std::numeric_limits<decltype(type)>::max());
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return range(int32_t{});
    case FieldDescriptor::CPPTYPE_INT64: return range(int64_t{});
    case FieldDescriptor::CPPTYPE_UINT32: return range(uint32_t{});
    case FieldDescriptor::CPPTYPE_UINT64: return range(uint64_t{});
    default: return ExpectedValue(field);
  }
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
