#include "experiments/program/spec/json_text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/elsewhere.h"
#include "core/proto/fields.h"
#include "core/proto/other_names.h"
#include "core/proto/spec.pb.h"

namespace twofold {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;  // no spec has as many brackets within each other

// "file:line:column: " of a byte.
std::string Place(const std::string& text, const std::string& file, size_t byte) {
  const auto at = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const auto line = std::find(std::make_reverse_iterator(at), text.rend(), '\n').base();
  return StrCat(file, ":", std::count(text.begin(), at, '\n') + 1, ":", std::max<std::ptrdiff_t>(1, at - line), ": ");
}

// The parser's "[json.exception.parse_error.101] parse error at line 2, column 5: syntax error while ..." without what
// precedes the reason.
std::string Reason(const std::string& what) {
  const size_t column = what.find("column "), colon = what.find(": ", column);
  const size_t bracket = what.find("] ");
  const size_t begin = column != std::string::npos && colon != std::string::npos ? colon + 2
                       : bracket != std::string::npos                            ? bracket + 2
                                                                                 : 0;
  return Printable(what.substr(begin));
}

absl::StatusOr<Json> Parse(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> open;  // the keys of the objects around the place that is read
  std::string wrong;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kDeepest && wrong.empty())
      wrong = StrCat("there are more than ", kDeepest, " brackets within each other");
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(parsed.get<std::string>()).second && wrong.empty())
      wrong = StrCat("\"", Printable(parsed.get<std::string>()), "\" is given twice; write it once");
    return depth <= kDeepest;
  };
  try {
    Json json = Json::parse(text, watch);
    if (!wrong.empty()) return InvalidArgument(file, ": ", wrong);
    return json;
  } catch (const Json::parse_error& error) {
    if (!wrong.empty()) return InvalidArgument(file, ": ", wrong);
    return InvalidArgument(Place(text, file, error.byte), Reason(error.what()),
                           "; a spec in JSON is { \"field\": value, ... }");
  } catch (const Json::exception& error) {  // a number that no double can hold
    return InvalidArgument(file, ": ", Reason(error.what()));
  }
}

std::string Shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = StrCat(text.substr(0, 60), "...");
  return Printable(text);
}

const FieldDescriptor* FindKey(const Descriptor& block, const std::string& key) {
  const FieldDescriptor* field = block.FindFieldByName(key);
  return field != nullptr ? field : block.FindFieldByCamelcaseName(key);
}

google::protobuf::util::Status Fill(const Json& json, Message& message) {
  return google::protobuf::util::JsonStringToMessage(json.dump(), &message);
}

// Whether the field, on its own, takes the value.
bool Takes(const Message& block, const std::string& key, const Json& value) {
  const std::unique_ptr<Message> alone(block.New());
  return Fill(Json{{key, value}}, *alone).ok();
}

std::string WrongValue(const FieldDescriptor& field, const Json& value) {
  if (field.enum_type() != nullptr && value.is_string()) {
    return StrCat(Shown(value), " is not a value of this field", ValueSuggestion(value.get<std::string>(), field));
  }
  return StrCat(Shown(value), " is not valid; use ", value.is_number() ? ExpectedRange(field) : ExpectedValue(field));
}

// The first thing that is wrong, with its path; "" if there is none. `block`: of the type that the object describes.
std::string FirstWrong(const Json& json, const Message& block, const std::string& path);

std::string WrongIn(const Json& value, const Message& block, const std::string& key, const FieldDescriptor& field,
                    const std::string& path) {
  if (value.is_null()) return "";
  if (field.is_repeated() && !value.is_array())
    return StrCat(path, ": ", Shown(value), " is not valid; use a list, [ ... ]");
  if (field.message_type() == nullptr)
    return Takes(block, key, value) ? "" : StrCat(path, ": ", WrongValue(field, value));
  const google::protobuf::Reflection& r = *block.GetReflection();
  const std::unique_ptr<Message> holder(block.New());
  if (!field.is_repeated()) return FirstWrong(value, *r.MutableMessage(holder.get(), &field), path);
  for (size_t i = 0; i < value.size(); ++i) {
    std::string wrong = FirstWrong(value[i], *r.AddMessage(holder.get(), &field), StrCat(path, "[", i, "]"));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string FirstWrong(const Json& json, const Message& block, const std::string& path) {
  const Descriptor& type = *block.GetDescriptor();
  const std::string at = path.empty() ? "" : StrCat(path, ": ");
  if (!json.is_object())
    return StrCat(at, Shown(json), " is not valid; use an object with the fields of a block, { ... }");
  std::set<const FieldDescriptor*> given;
  std::set<const google::protobuf::OneofDescriptor*> chosen;
  for (const auto& [key, value] : json.items()) {
    const FieldDescriptor* field = FindKey(type, key);
    const std::string here = StrCat(path, path.empty() ? "" : ".", Printable(key));
    if (field == nullptr)
      return StrCat(here, ": \"", Printable(key), "\" is not a field", Suggestion(key, FieldNames(type)),
                    Elsewhere(*spec::Spec::descriptor(), key));
    if (!given.insert(field).second) return StrCat(here, ": is given twice; write it once");
    const auto* choice = value.is_null() ? nullptr : field->containing_oneof();
    if (choice != nullptr && !chosen.insert(choice).second)
      return StrCat(here, ": another member of \"", choice->name(), "\" is given, too; keep one of them");
    std::string wrong = WrongIn(value, block, key, *field, here);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

bool IsJson(std::string_view text, std::string_view file) {
  if (file.ends_with(".json")) return true;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const auto first = std::find_if_not(text.begin(), text.end(), absl::ascii_isspace);
  return first != text.end() && *first == '{';
}

absl::Status ParseJsonText(const std::string& text, const std::string& file, Message& message) {
  absl::StatusOr<Json> json = Parse(text, file);
  if (!json.ok()) return json.status();
  if (json->is_object()) json->erase("$schema");
  if (const std::string wrong = FirstWrong(*json, message, ""); !wrong.empty())
    return InvalidArgument(file, ": ", wrong);
  if (const auto filled = Fill(*json, message); !filled.ok())
    return InvalidArgument(file, ": ", Printable(std::string(filled.message())));
  const std::string odd = OddString(message);  // escapes can put arbitrary characters into strings
  return odd.empty() ? absl::OkStatus() : InvalidArgument(file, ": ", odd, "; write text in UTF-8");
}

}  // namespace twofold
