#include "experiments/program/describe/fields.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/describe/comments.h"
#include "experiments/program/describe/ranges.h"
#include "experiments/program/describe/spec_proto_text.h"

namespace twofold {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Path = std::vector<const FieldDescriptor*>;

std::string MeaningOf(const SpecComments& comments, const FieldDescriptor& field) {
  std::string own = comments.Of(field);
  if (!own.empty()) return own;
  if (field.message_type() != nullptr) return comments.Of(*field.message_type());
  return field.enum_type() != nullptr ? comments.Of(*field.enum_type()) : "";
}

std::vector<NamedValue> ValuesOf(const SpecComments& comments, const FieldDescriptor& field) {
  std::vector<NamedValue> values;
  if (field.enum_type() == nullptr) return values;
  for (const std::string& name : ValueNames(field))
    values.push_back({name, comments.Of(*field.enum_type()->FindValueByName(name))});
  return values;
}

class Walk {
 public:
  void Into(const Descriptor& block, const std::string& prefix) {
    for (int i = 0; i < block.field_count(); ++i) {
      const FieldDescriptor& field = *block.field(i);
      path_.push_back(&field);
      Add(field, prefix);
      if (field.message_type() != nullptr) Into(*field.message_type(), StrCat(prefix, field.name(), "."));
      path_.pop_back();
    }
  }
  std::vector<SpecField> fields;
  std::vector<Path> numbers;

 private:
  void Add(const FieldDescriptor& field, const std::string& prefix) {
    SpecField& entry = fields.emplace_back();
    entry.path = StrCat(prefix, field.name());
    entry.field = &field;
    entry.meaning = MeaningOf(comments_, field);
    entry.values = ValuesOf(comments_, field);
    if (field.message_type() != nullptr) {
      const std::string of_type = comments_.Of(*field.message_type());
      if (of_type != entry.meaning) entry.block_meaning = of_type;
    }
    if (const auto* choice = field.containing_oneof()) {
      for (int i = 0; i < choice->field_count(); ++i)
        entry.excludes.push_back(StrCat(prefix, choice->field(i)->name()));
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
      case FieldDescriptor::CPPTYPE_DOUBLE: numbers.push_back(path_); break;
      default: break;
    }
  }

  const SpecComments comments_;
  Path path_;
};

std::string OneText(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "text";
    case FieldDescriptor::CPPTYPE_DOUBLE: return "number";
    case FieldDescriptor::CPPTYPE_MESSAGE: return "block";
    case FieldDescriptor::CPPTYPE_ENUM: return StrCat("one of ", absl::StrJoin(ValueNames(field), ", "));
    default: return "whole number";
  }
}

std::string BoundText(double bound) {
  return bound == std::floor(bound) && std::abs(bound) < 1e19 ? absl::StrFormat("%.0f", bound) : NumberText(bound);
}

}  // namespace

std::vector<SpecField> SpecFields() {
  Walk walk;
  walk.Into(*spec::Spec::descriptor(), "");
  const BoundsByPath ranges = FixedRanges(walk.numbers);
  for (SpecField& field : walk.fields) {
    if (const auto range = ranges.find(field.path); range != ranges.end()) field.range = range->second;
  }
  return std::move(walk.fields);
}

std::string TypeText(const SpecField& field) {
  const std::string one = OneText(*field.field);
  return field.field->is_repeated() ? StrCat("list of ", one, "s") : one;
}

std::string DefaultText(const FieldDescriptor& field) {
  if (!field.has_default_value()) return "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return StrCat(field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64: return StrCat(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT64: return StrCat(field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE: return NumberText(field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL: return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING: return StrCat("\"", field.default_value_string(), "\"");
    case FieldDescriptor::CPPTYPE_ENUM: return field.default_value_enum()->name();
    default: return "";
  }
}

std::string RangeText(const Bounds& range) {
  const std::string least = range.least ? BoundText(*range.least) : "", most = range.most ? BoundText(*range.most) : "";
  if (range.least && range.most && range.above)
    return StrCat("above ", least, range.below ? " and below " : ", at most ", most);
  if (range.least && range.most) return StrCat("from ", least, range.below ? " to below " : " to ", most);
  if (range.least) return range.above ? StrCat("above ", least) : StrCat(least, " or more");
  if (range.most) return range.below ? StrCat("below ", most) : StrCat("at most ", most);
  return "";
}

std::string_view SpecProto() { return kSpecProto; }

}  // namespace twofold
