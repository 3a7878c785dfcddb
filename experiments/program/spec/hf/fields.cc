#include "experiments/program/spec/hf/fields.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"

namespace twofold::hf {
namespace {

using nlohmann::json;

// Token ids, names, element types of stored weights, caches, and parts outside the language model.
constexpr absl::string_view kHarmless =
    "_attn_implementation_autoset _name_or_path dtype gradient_checkpointing n_special output_attentions "
    "output_hidden_states output_past predict_special_tokens pretraining_tp return_dict summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params torch_dtype "
    "transformers_version use_cache";

bool IsHarmless(const std::string& name) {
  const auto harmless = absl::StrSplit(kHarmless, ' ');
  return name.ends_with("_token_id") || std::find(harmless.begin(), harmless.end(), name) != harmless.end();
}

}  // namespace

std::string ValueText(const json& value) {
  constexpr size_t kLongest = 60;
  if (value.is_structured()) return StrCat(value.is_array() ? "a list" : "an object", " of ", value.size());
  std::string text;
  if (value.is_string()) {  // not dumped whole: it may be as long as the file
    text = json(value.get_ref<const std::string&>().substr(0, kLongest))
               .dump(-1, ' ', false, json::error_handler_t::replace);
  } else {
    text = value.dump();
  }
  return text.substr(0, kLongest + 2);
}

std::string NameText(const std::string& name) { return name.size() > 60 ? name.substr(0, 60) + "..." : name; }

bool Fields::Has(std::string_view name) const { return object_.contains(name); }

const json* Fields::Find(std::string_view name) {
  seen_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

int64_t Fields::Whole(std::string_view name, int64_t least, int64_t most) {
  if (Find(name) != nullptr) return Whole(name, least, most, least);
  Refuse(name, "is missing; use a whole number from ", least, " to ", most);
  return least;
}

int64_t Fields::Whole(std::string_view name, int64_t least, int64_t most, int64_t fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  const bool fits =
      value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{1} << 62);
  if (fits && value->get<int64_t>() >= least && value->get<int64_t>() <= most) return value->get<int64_t>();
  Refuse(name, ValueText(*value), " is not valid; use a whole number from ", least, " to ", most);
  return fallback;
}

double Fields::Above(std::string_view name, double bound) {
  if (Find(name) != nullptr) return Above(name, bound, bound + 1);
  Refuse(name, "is missing; use a number above ", NumberText(bound));
  return bound + 1;
}

double Fields::Above(std::string_view name, double bound, double fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > bound)
    return value->get<double>();
  Refuse(name, ValueText(*value), " is not valid; use a number above ", NumberText(bound));
  return fallback;
}

double Fields::Fraction(std::string_view name, double fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1) return value->get<double>();
  Refuse(name, ValueText(*value), " is not valid; use a number from 0 to below 1");
  return fallback;
}

bool Fields::Flag(std::string_view name, bool fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Refuse(name, ValueText(*value), " is not valid; use true or false");
  return fallback;
}

std::string Fields::Text(std::string_view name, std::string fallback) {
  const json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Refuse(name, ValueText(*value), " is not valid; use text in double quotes");
  return "";
}

void Fields::Only(std::string_view name, std::initializer_list<json> values) {
  const json* value = Find(name);
  if (value == nullptr || (!value->is_structured() && std::find(values.begin(), values.end(), *value) != values.end()))
    return;
  std::string right;
  for (const json& v : values) StrAppend(&right, right.empty() ? "" : " or ", ValueText(v));
  Refuse(name, ValueText(*value), " would change the model and is not supported; use ", right);
}

void Fields::Ignore() {
  for (const auto& [name, value] : object_.items())
    if (IsHarmless(name)) seen_.insert(name);
}

void Fields::Finish() {
  constexpr int kMost = 20;
  int told = 0;
  for (const auto& [name, value] : object_.items()) {
    if (seen_.contains(name)) continue;
    if (++told > kMost) return Refuse("", "has more unknown fields");
    Refuse(NameText(name), ValueText(value),
           " is the value of an unknown field, which might change the model; remove the field, or write the sizes as "
           "model { llama { ... } } or model { gpt { ... } }");
  }
}

}  // namespace twofold::hf
