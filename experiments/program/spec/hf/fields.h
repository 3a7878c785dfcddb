// The fields of one JSON object, each asked for once: what nobody asked for is a problem.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "experiments/program/spec/problems/problems.h"
#include "nlohmann/json.hpp"

namespace twofold::hf {

// Problems are added under `prefix` + the field's name. A field that is absent or null has its fallback; those without
// one are required. After a problem the value returned is in range all the same.
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
  std::string Text(std::string_view name, std::string fallback);  // "" where it is no text

  // The field may be absent, null or one of these; another value would change the model.
  void Only(std::string_view name, std::initializer_list<nlohmann::json> values);

  bool Has(std::string_view name) const;  // null or not
  const nlohmann::json* Find(std::string_view name);  // null: absent or null
  void Ignore();   // what is known to change nothing
  void Finish();   // adds a problem for each field that was not asked for
  void Refuse(std::string_view name, std::string_view text);

 private:
  const nlohmann::json& object_;
  std::string prefix_;
  Problems& problems_;
  std::set<std::string, std::less<>> seen_;
};

// A value as a message shows it: short, whatever it is.
std::string ValueText(const nlohmann::json& value);
std::string NameText(const std::string& name);  // likewise, of a field

}  // namespace twofold::hf
