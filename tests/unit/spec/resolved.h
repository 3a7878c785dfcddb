// Specs given as text, resolved or refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "experiments/program/spec/spec.h"

namespace twofold::resolved {

inline constexpr char kMinimal[] = "model { preset: \"gpt-3m\" }";
inline constexpr char kMlp[] = "model { mlp { inputs: 3 hidden: [4] classes: 2 } }";

inline spec::Spec Resolved(const std::string& text, std::string_view fabric = "", std::vector<std::string> sets = {}) {
  absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "a/test.textproto", fabric, sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : spec::Spec();
}

inline std::string Refused(const std::string& text, std::string_view fabric = "", std::vector<std::string> sets = {}) {
  const absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "test.textproto", fabric, sets);
  EXPECT_FALSE(spec.ok());
  return std::string(spec.status().message());
}

}  // namespace twofold::resolved
