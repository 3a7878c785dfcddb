// The fields of one JSON object, each read once. A field that nobody reads is a problem.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "experiments/program/spec/problems/problems.h"
#include "nlohmann/json.hpp"

namespace twofold::hf {

// Problems are added under `prefix` + the field's name. A field that is absent or null has its fallback value; fields
// without a fallback are required. After a problem the returned value is still in range.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string prefix, Problems& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  int64_t Whole(std::string_view name, int64_t least, int64_t most);
  int64_t Whole(std::string_view name, int64_t least, int64_t most, int64_t fallback);
  double Above(std::string_view name, double bound);
  double Above(std::string_view name, double bound, double fallback);
  double Fraction(std::string_view name, double fallback);  // in [0, 1)
  bool Flag(std::string_view name, bool fallback);
  std::string Text(std::string_view name, std::string fallback);  // "" if it is not a string

  // The field may be absent, null or one of `values`; any other value would change the model.
  void Only(std::string_view name, std::initializer_list<nlohmann::json> values);

  bool Has(std::string_view name) const;              // null or not
  const nlohmann::json* Find(std::string_view name);  // null: absent or null
  void Ignore();                                      // ignores the fields that are known to change nothing
  void Finish();                                      // adds a problem for each field that was not read
  void Refuse(std::string_view name, const auto&... text) { problems_.Add(StrCat(prefix_, name), text...); }

 private:
  const nlohmann::json& object_;
  std::string prefix_;
  Problems& problems_;
  std::set<std::string, std::less<>> seen_;
};

// A value as shown in a message: always short.
std::string ValueText(const nlohmann::json& value);
std::string NameText(const std::string& name);  // likewise for a field's name

}  // namespace twofold::hf
