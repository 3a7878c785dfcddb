#include "experiments/program/predict/sweep.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/report/files.h"
#include "experiments/program/spec/spec.h"

namespace twofold {

absl::StatusOr<std::vector<Varied>> ParseVaried(absl::Span<const std::string> texts) {
  std::vector<Varied> all;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    Varied varied{.path = parts.first, .values = absl::StrSplit(parts.second, ',')};
    const auto empty = [](const std::string& value) { return value.empty(); };
    if (varied.path.empty() || std::any_of(varied.values.begin(), varied.values.end(), empty))
      return InvalidArgument("--vary=", text, ": use PATH=VALUE,VALUE, such as parallel.tp=1,2,4");
    if (std::any_of(all.begin(), all.end(), [&](const Varied& v) { return v.path == varied.path; }))
      return InvalidArgument("--vary=", text, ": ", varied.path, " is varied twice; list all its values in one --vary");
    all.push_back(std::move(varied));
  }
  return all;
}

std::vector<std::string> SetsOfPrediction(absl::Span<const std::string> sets) {
  std::vector<std::string> all;
  if (std::none_of(sets.begin(), sets.end(), [](const std::string& s) { return absl::StartsWith(s, "trace"); }))
    all.emplace_back("trace.enabled=false");
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

absl::StatusOr<std::vector<Variant>> VariantsOf(const std::string& path, absl::Span<const std::string> sets,
                                                absl::Span<const Varied> varied) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  int64_t count = 1;
  for (const Varied& v : varied) {
    count *= static_cast<int64_t>(v.values.size());
    if (count > kMostVariants)
      return InvalidArgument("--vary: more than ", kMostVariants, " combinations; vary fewer fields, or fewer values");
  }
  const std::vector<std::string> usual = SetsOfPrediction(sets);
  std::vector<Variant> variants;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<std::string> all = usual, values(varied.size());
    int64_t rest = i;
    for (size_t v = varied.size(); v-- > 0;) {
      const auto choices = static_cast<int64_t>(varied[v].values.size());
      values[v] = varied[v].values[static_cast<size_t>(rest % choices)];
      rest /= choices;
    }
    for (size_t v = 0; v < varied.size(); ++v) all.push_back(StrCat(varied[v].path, "=", values[v]));
    variants.push_back({.values = std::move(values), .spec = ResolveSpec(*text, path, "simulated", all)});
    any = any || variants.back().spec.ok();
  }
  if (!any) return variants.front().spec.status();
  return variants;
}

}  // namespace twofold
