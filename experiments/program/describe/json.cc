#include "experiments/program/describe/json.h"

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

Json DefaultJson(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64: return field.default_value_int64();
    case FieldDescriptor::CPPTYPE_UINT64: return field.default_value_uint64();
    case FieldDescriptor::CPPTYPE_DOUBLE: return field.default_value_double();
    case FieldDescriptor::CPPTYPE_BOOL: return field.default_value_bool();
    case FieldDescriptor::CPPTYPE_ENUM: return field.default_value_enum()->name();
    default: return field.default_value_string();
  }
}

const char* TypeName(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return "boolean";
    case FieldDescriptor::CPPTYPE_DOUBLE: return "number";
    case FieldDescriptor::CPPTYPE_MESSAGE: return "object";
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_STRING: return "string";
    default: return "integer";
  }
}

// Whole bounds as whole numbers.
Json Bound(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 0x1p63;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

// ---- The schema ----

class Schema {
 public:
  explicit Schema(const std::vector<SpecField>& fields) {
    for (const SpecField& field : fields) by_path_[field.path] = &field;
  }
  Json Block(const google::protobuf::Descriptor& block, const std::string& prefix) const {
    Json schema = {{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < block.field_count(); ++i) {
      const SpecField& field = *by_path_.at(StrCat(prefix, block.field(i)->name()));
      schema["properties"][field.field->name()] = Field(field);
    }
    schema["additionalProperties"] = false;
    AddChoices(block, schema);
    return schema;
  }

 private:
  Json Field(const SpecField& field) const {
    const FieldDescriptor& f = *field.field;
    Json one = f.message_type() != nullptr ? Block(*f.message_type(), StrCat(field.path, ".")) : Value(field);
    Json schema = f.is_repeated() ? Json{{"type", "array"}, {"items", std::move(one)}} : std::move(one);
    schema["description"] = Description(field);
    if (f.has_default_value()) schema["default"] = DefaultJson(f);
    return schema;
  }
  static Json Value(const SpecField& field) {
    Json schema = {{"type", TypeName(*field.field)}};
    for (const NamedValue& value : field.values) schema["enum"].push_back(value.name);
    const Bounds& range = field.range;
    if (range.least) schema[range.above ? "exclusiveMinimum" : "minimum"] = Bound(*range.least);
    if (range.most) schema[range.below ? "exclusiveMaximum" : "maximum"] = Bound(*range.most);
    return schema;
  }
  // Editors show one text a field: what the values mean is part of it.
  static std::string Description(const SpecField& field) {
    std::string text = field.meaning;
    if (!field.block_meaning.empty()) StrAppend(&text, "\n", field.block_meaning);
    for (const NamedValue& value : field.values)
      if (!value.meaning.empty()) StrAppend(&text, "\n", value.name, ": ", value.meaning);
    return text;
  }
  // Of the members of a oneof, no two.
  static void AddChoices(const google::protobuf::Descriptor& block, Json& schema) {
    for (int k = 0; k < block.oneof_decl_count(); ++k) {
      const auto& choice = *block.oneof_decl(k);
      for (int i = 0; i < choice.field_count(); ++i)
        for (int j = i + 1; j < choice.field_count(); ++j)
          schema["allOf"].push_back({{"not", {{"required", {choice.field(i)->name(), choice.field(j)->name()}}}}});
    }
  }

  std::map<std::string, const SpecField*> by_path_;
};

}  // namespace

Json FieldsJson(const std::vector<const SpecField*>& fields) {
  Json list = Json::array();
  for (const SpecField* field : fields) {
    Json& json = list.emplace_back();
    json["path"] = field->path;
    json["type"] = TypeName(*field->field);
    json["list"] = field->field->is_repeated();
    if (field->field->has_default_value()) json["default"] = DefaultJson(*field->field);
    const Bounds& range = field->range;
    if (range.least) json["least"] = Bound(*range.least), json["above"] = range.above;
    if (range.most) json["most"] = Bound(*range.most), json["below"] = range.below;
    json["meaning"] = field->meaning;
    if (!field->block_meaning.empty()) json["block_meaning"] = field->block_meaning;
    for (const NamedValue& value : field->values)
      json["values"].push_back({{"name", value.name}, {"meaning", value.meaning}});
    if (!field->excludes.empty()) json["excludes"] = field->excludes;
  }
  return list;
}

Json SpecSchema(const std::vector<SpecField>& fields) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "A spec of Twofold"}};
  Json root = Schema(fields).Block(*spec::Spec::descriptor(), "");
  root["properties"]["$schema"] = {{"type", "string"}, {"description", "The file of this schema, for editors."}};
  schema.update(root);
  return schema;
}

}  // namespace twofold
