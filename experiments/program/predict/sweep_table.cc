#include "experiments/program/predict/sweep_table.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Why a variant has no figures; empty: it has.
std::string ErrorOf(const Variant& variant) {
  if (!variant.spec.ok()) return std::string(variant.spec.status().message());
  if (!variant.report.has_value()) return "not predicted";
  return variant.report->ok() ? "" : std::string(variant.report->status().message());
}

int64_t PeakBytes(const report::Report& r) {
  int64_t peak = 0;
  for (const report::Rank& rank : r.ranks()) peak = std::max(peak, rank.peak_bytes());
  return peak;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string SweepText(absl::Span<const Varied> varied, absl::Span<const Variant> variants) {
  std::vector<std::vector<std::string>> rows(1);
  for (const Varied& v : varied) rows[0].push_back(v.path.substr(v.path.rfind('.') + 1));
  for (const char* head : {"ranks", "step time", "low", "high", "tokens/s", "MFU", "peak memory", ""})
    rows[0].emplace_back(head);
  for (const Variant& variant : variants) {
    std::vector<std::string>& row = rows.emplace_back(variant.values);
    const std::string error = ErrorOf(variant);
    const report::Report& r = error.empty() ? **variant.report : report::Report::default_instance();
    if (!error.empty() || r.outcome() != report::OK) {
      row.insert(row.end(), 7, "");
      if (error.empty()) row[varied.size()] = CountText(r.world_size());
      row.push_back(FirstLine(error.empty() ? StrCat(report::Outcome_Name(r.outcome()), ": ", r.message()) : error));
      continue;
    }
    row.insert(row.end(), {CountText(r.world_size()), SecondsText(r.median_step_seconds()), SecondsText(r.low()),
                           SecondsText(r.high()), RateText(r.tokens_per_second()),
                           r.mfu() > 0 ? ShareText(r.mfu()) : "-", BytesText(static_cast<double>(PeakBytes(r)))});
  }
  return TableText(rows);
}

nlohmann::ordered_json SweepJson(absl::Span<const Varied> varied, absl::Span<const Variant> variants) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Variant& variant : variants) {
    nlohmann::ordered_json& one = all.emplace_back(nlohmann::ordered_json::object());
    one["set"] = nlohmann::ordered_json::object();
    for (size_t v = 0; v < varied.size(); ++v) one["set"][varied[v].path] = variant.values[v];
    if (const std::string error = ErrorOf(variant); !error.empty()) {
      one["error"] = error;
      continue;
    }
    const report::Report& r = **variant.report;
    one["outcome"] = report::Outcome_Name(r.outcome());
    one["message"] = r.message();
    one["world_size"] = r.world_size();
    one["median_step_seconds"] = r.median_step_seconds();
    one["low"] = r.low();
    one["high"] = r.high();
    one["tokens_per_second"] = r.tokens_per_second();
    one["exposed_communication_seconds"] = r.exposed_communication_seconds();
    one["mfu"] = r.mfu();
    one["hfu"] = r.hfu();
    one["peak_bytes"] = PeakBytes(r);
    one["notes"] = nlohmann::ordered_json::array();
    for (const std::string& note : r.notes()) one["notes"].push_back(note);
  }
  return all;
}

}  // namespace twofold
