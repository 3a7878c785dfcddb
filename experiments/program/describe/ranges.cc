#include "experiments/program/describe/ranges.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "core/base/check.h"
#include "experiments/program/spec/presets.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Path = std::vector<const FieldDescriptor*>;

constexpr char kName[] = "ranges";

// A model of the kind that the path leads into, or any.
void AddModel(const Path& path, spec::Spec& spec) {
  const bool inside = path.size() > 1 && path[0]->number() == spec::Spec::kModelFieldNumber;
  for (const ModelPreset& preset : ModelPresets()) {
    spec::Model model;
    TWOFOLD_CHECK(google::protobuf::TextFormat::ParseFromString(std::string(preset.model), &model), preset.name);
    if (inside && path[1]->containing_oneof() != nullptr && !model.GetReflection()->HasField(model, path[1])) continue;
    *spec.mutable_model() = model;
    return;
  }
}

// Sets the number, an element if it is a list, to its default; to 1 or, as shares are below 1, to 0.5 if it has none.
void SetNumber(Message& m, const FieldDescriptor& field) {
  const Reflection* r = m.GetReflection();
  if (!field.is_repeated() && r->HasField(m, &field)) return;
  const auto store = [&](auto value, auto set, auto add) {
    field.is_repeated() ? (r->*add)(&m, &field, value) : (r->*set)(&m, &field, value);
  };
  const bool stated = field.has_default_value();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return store(stated ? field.default_value_int32() : 1, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return store(stated ? field.default_value_int64() : 1, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT64:
      return store(stated ? field.default_value_uint64() : 1, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return store(stated ? field.default_value_double() : 0.5, &Reflection::SetDouble, &Reflection::AddDouble);
    default: TWOFOLD_CHECK(false, field.full_name());  // it is no number
  }
}

spec::Spec SpecWith(const Path& path) {
  spec::Spec spec;
  AddModel(path, spec);
  Message* m = &spec;
  for (const FieldDescriptor* field : path) {
    if (field == path.back()) break;
    const Reflection* r = m->GetReflection();
    m = field->is_repeated() ? r->AddMessage(m, field) : r->MutableMessage(m, field);
  }
  SetNumber(*m, *path.back());
  FillDefaults(spec, kName);
  return spec;
}

// Numbers that are shares or small factors would be refused if they were doubled; no bound depends on them.
void DoubleNumbers(Message& m) {
  const Reflection* r = m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto type = field->cpp_type();
    if (type == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = field->is_repeated() ? r->FieldSize(m, field) : 0;
      for (int i = 0; i < size; ++i) DoubleNumbers(*r->MutableRepeatedMessage(&m, field, i));
      if (!field->is_repeated()) DoubleNumbers(*r->MutableMessage(&m, field));
    } else if (type == FieldDescriptor::CPPTYPE_INT64 && field->is_repeated()) {
      for (int i = 0; i < r->FieldSize(m, field); ++i)
        r->SetRepeatedInt64(&m, field, i, 2 * r->GetRepeatedInt64(m, field, i));
    } else if (type == FieldDescriptor::CPPTYPE_INT64) {
      r->SetInt64(&m, field, 2 * r->GetInt64(m, field));
    } else if (type == FieldDescriptor::CPPTYPE_DOUBLE && !field->is_repeated() && r->GetDouble(m, field) >= 1) {
      r->SetDouble(&m, field, 2 * r->GetDouble(m, field));
    }
  }
}

// The bounds that both have.
Bounds Common(const Bounds& a, const Bounds& b) {
  Bounds common;
  if (a.least == b.least && a.above == b.above) common.least = a.least, common.above = a.above;
  if (a.most == b.most && a.below == b.below) common.most = a.most, common.below = a.below;
  return common;
}

}  // namespace

BoundsByPath FixedRanges(const std::vector<Path>& numbers) {
  BoundsByPath fixed;
  for (const Path& path : numbers) {
    std::string name;
    for (const FieldDescriptor* field : path) name += (name.empty() ? "" : ".") + field->name();
    spec::Spec spec = SpecWith(path);
    const BoundsByPath once = BoundsOf(spec);
    DoubleNumbers(spec);
    const BoundsByPath twice = BoundsOf(spec);
    const auto a = once.find(name), b = twice.find(name);
    if (a == once.end() || b == twice.end()) continue;
    const Bounds common = Common(a->second, b->second);
    if (common.least || common.most) fixed[name] = common;
  }
  return fixed;
}

}  // namespace twofold
