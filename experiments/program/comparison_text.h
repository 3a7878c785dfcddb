// Comparisons as text for people and for programs. Each function takes one prediction's comparisons with one or more
// measurements, at least one.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "experiments/program/compare.h"

namespace twofold {

// One column of the table each. `shown_notes`: as --notes says.
std::string ComparisonText(std::span<const Comparison> comparisons, const std::string& shown_notes = "short");
// The same tables, as GitHub draws them.
std::string ComparisonMarkdown(std::span<const Comparison> comparisons, const std::string& shown_notes = "short");
// measured_fabric,section,name,unit,predicted,measured,error: one line per value, in the order of the JSON. Sections
// are the JSON's lists. Numbers are in their shortest exact form; what is not known is empty.
std::string ComparisonCsv(std::span<const Comparison> comparisons);
// One object, or an array of them if there are several.
nlohmann::ordered_json ComparisonJson(std::span<const Comparison> comparisons);

// Says which step times are off by more than `most`, a share of the measured one, in either direction. Empty if none
// is. A comparison without step times counts as off.
std::string ErrorsAbove(std::span<const Comparison> comparisons, double most);

}  // namespace twofold
