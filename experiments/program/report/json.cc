#include "experiments/program/report/json.h"

#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// The field's value; element `i` if it is repeated.
Json ValueOf(const Message& m, const FieldDescriptor* f, int i) {
  const Reflection* r = m.GetReflection();
  const bool many = f->is_repeated();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return many ? r->GetRepeatedInt32(m, f, i) : r->GetInt32(m, f);
    case FieldDescriptor::CPPTYPE_INT64: return many ? r->GetRepeatedInt64(m, f, i) : r->GetInt64(m, f);
    case FieldDescriptor::CPPTYPE_UINT32: return many ? r->GetRepeatedUInt32(m, f, i) : r->GetUInt32(m, f);
    case FieldDescriptor::CPPTYPE_UINT64: return many ? r->GetRepeatedUInt64(m, f, i) : r->GetUInt64(m, f);
    case FieldDescriptor::CPPTYPE_FLOAT: return Number(many ? r->GetRepeatedFloat(m, f, i) : r->GetFloat(m, f));
    case FieldDescriptor::CPPTYPE_DOUBLE: return Number(many ? r->GetRepeatedDouble(m, f, i) : r->GetDouble(m, f));
    case FieldDescriptor::CPPTYPE_BOOL: return many ? r->GetRepeatedBool(m, f, i) : r->GetBool(m, f);
    case FieldDescriptor::CPPTYPE_ENUM: return (many ? r->GetRepeatedEnum(m, f, i) : r->GetEnum(m, f))->name();
    case FieldDescriptor::CPPTYPE_STRING: return many ? r->GetRepeatedString(m, f, i) : r->GetString(m, f);
    case FieldDescriptor::CPPTYPE_MESSAGE: return ToJson(many ? r->GetRepeatedMessage(m, f, i) : r->GetMessage(m, f));
  }
  return nullptr;
}

// ---- Reading ----
absl::Status ReadMessage(const Json& json, const std::string& path, Message& m);

absl::Status Refuse(const std::string& path, const Json& value, std::string_view right) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = StrCat(text.substr(0, 60), "...");
  return InvalidArgument(path, ": expected ", right, " (got ", text, ")");
}

// Appends to a repeated field, sets any other.
template <class T, class Set, class Add>
absl::Status Store(Message& m, const FieldDescriptor* f, T value, Set set, Add add) {
  const Reflection* r = m.GetReflection();
  f->is_repeated() ? (r->*add)(&m, f, std::move(value)) : (r->*set)(&m, f, std::move(value));
  return absl::OkStatus();
}

template <class T, class Set, class Add>
absl::Status StoreWhole(const Json& json, const std::string& path, Message& m, const FieldDescriptor* f, Set set,
                        Add add) {
  bool fits = json.is_number_integer();
  if (fits && json.is_number_unsigned()) {
    fits = json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
  } else if (fits) {
    const int64_t value = json.get<int64_t>();
    fits = std::is_unsigned_v<T> ? value >= 0
                                 : value >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
                                       value <= static_cast<int64_t>(std::numeric_limits<T>::max());
  }
  if (!fits) return Refuse(path, json, StrCat("a whole number of ", sizeof(T) * 8, " bits"));
  return Store(m, f, json.get<T>(), set, add);
}

template <class T, class Set, class Add>
absl::Status StoreNumber(const Json& json, const std::string& path, Message& m, const FieldDescriptor* f, Set set,
                         Add add) {
  if (json.is_null()) return Store(m, f, std::numeric_limits<T>::quiet_NaN(), set, add);
  if (!json.is_number()) return Refuse(path, json, "a number");
  return Store(m, f, json.get<T>(), set, add);
}

absl::Status StoreEnum(const Json& json, const std::string& path, Message& m, const FieldDescriptor* f) {
  const auto* value = json.is_string() ? f->enum_type()->FindValueByName(json.get<std::string>()) : nullptr;
  if (value == nullptr) return Refuse(path, json, StrCat("a value of ", f->enum_type()->name()));
  return Store(m, f, value, &Reflection::SetEnum, &Reflection::AddEnum);
}

absl::Status ReadValue(const Json& json, const std::string& path, Message& m, const FieldDescriptor* f) {
  const Reflection* r = m.GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return StoreWhole<int32_t>(json, path, m, f, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return StoreWhole<int64_t>(json, path, m, f, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return StoreWhole<uint32_t>(json, path, m, f, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return StoreWhole<uint64_t>(json, path, m, f, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StoreNumber<float>(json, path, m, f, &Reflection::SetFloat, &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return StoreNumber<double>(json, path, m, f, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!json.is_boolean()) return Refuse(path, json, "true or false");
      return Store(m, f, json.get<bool>(), &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_STRING:
      if (!json.is_string()) return Refuse(path, json, "text");
      return Store(m, f, json.get<std::string>(), &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_ENUM: return StoreEnum(json, path, m, f);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(json, path, f->is_repeated() ? *r->AddMessage(&m, f) : *r->MutableMessage(&m, f));
  }
  return absl::OkStatus();
}

absl::Status ReadField(const Json& json, const std::string& path, Message& m, const FieldDescriptor* f) {
  if (!f->is_repeated()) return ReadValue(json, path, m, f);
  if (!json.is_array()) return Refuse(path, json, "a list");
  for (size_t i = 0; i < json.size(); ++i) {
    if (absl::Status status = ReadValue(json[i], StrCat(path, "[", i, "]"), m, f); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadMessage(const Json& json, const std::string& path, Message& m) {
  if (!json.is_object()) return Refuse(path.empty() ? "the whole file" : path, json, "an object");
  for (const auto& [key, value] : json.items()) {
    const std::string here = path.empty() ? key : StrCat(path, ".", key);
    const FieldDescriptor* field = m.GetDescriptor()->FindFieldByName(key);
    if (field == nullptr) {
      return InvalidArgument(here, ": ", m.GetDescriptor()->name(), " has no such field");
    }
    if (absl::Status status = ReadField(value, here, m, field); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

Json ToJson(const Message& message) {
  const Reflection* r = message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* f = message.GetDescriptor()->field(i);
    if (f->is_repeated()) {
      Json& list = json[f->name()] = Json::array();
      for (int k = 0; k < r->FieldSize(message, f); ++k) list.push_back(ValueOf(message, f, k));
    } else {
      const bool choice = f->message_type() != nullptr || f->containing_oneof() != nullptr;
      if (!choice || r->HasField(message, f)) json[f->name()] = ValueOf(message, f, 0);
    }
  }
  return json;
}

absl::Status FromJson(const Json& json, Message* message) {
  TWOFOLD_CHECK(message != nullptr, "there must be a message to read into");
  message->Clear();
  return ReadMessage(json, "", *message);
}

std::string JsonText(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace twofold
