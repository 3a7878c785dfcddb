#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "experiments/program/page/page.h"
#include "experiments/program/page/page_data.h"
#include "experiments/program/page/web_texts.h"
#include "experiments/program/page/whole_page.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/report/files.h"

namespace twofold::page {
namespace {

using Json = nlohmann::ordered_json;
using pictures::Escape;

// What layouts differ in, for filters.
constexpr const char* kChoices[] = {"tp",
                                    "pp",
                                    "cp",
                                    "ep",
                                    "dp",
                                    "sharding",
                                    "schedule",
                                    "virtual_stages",
                                    "micro_batch",
                                    "recompute",
                                    "selective",
                                    "offload",
                                    "sequence_parallel"};
constexpr const char* kTexts[] = {"layout",  "sharding",          "schedule", "selective",
                                  "offload", "sequence_parallel", "fate",     "extended"};

bool IsText(std::string_view column) {
  return std::find(std::begin(kTexts), std::end(kTexts), column) != std::end(kTexts);
}

// {"columns": [...], "layouts": [[...], ...]}; what is empty is null.
absl::Status ReadLayouts(const std::string& path, Json& json) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line))
    return InvalidArgument(path, ": cannot be read; `twofold plan --out=DIR` writes it");
  const std::vector<std::string> columns = absl::StrSplit(line, ',');
  for (const char* needed : {"layout", "fate", "least_seconds", "least_bytes", "seconds", "bytes"}) {
    if (std::find(columns.begin(), columns.end(), needed) == columns.end())
      return InvalidArgument(path, ": line 1: a column \"", needed, "\" is missing");
  }
  json["columns"] = columns, json["layouts"] = Json::array();
  for (int number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    if (cells.size() != columns.size())
      return InvalidArgument(path, ": line ", number, ": ", cells.size(), " values for ", columns.size(), " columns");
    Json row = Json::array();
    for (size_t i = 0; i < cells.size(); ++i) {
      double value = 0;
      if (IsText(columns[i]))
        row.push_back(cells[i]);
      else if (cells[i].empty())
        row.push_back(nullptr);
      else if (absl::SimpleAtod(cells[i], &value))
        row.push_back(value);
      else
        return InvalidArgument(path, ": line ", number, ": ", columns[i], ": \"", cells[i], "\" is not a number");
    }
    json["layouts"].push_back(std::move(row));
  }
  return absl::OkStatus();
}

std::string TableOf(const Json& plan) {
  std::string t =
      "<div class=wrap><table id=plan-table><tr><th>layout</th><th>step time</th><th>interval</th><th>tokens/s</th>"
      "<th>MFU</th><th>memory</th><th>bubble</th><th>exposed communication</th></tr>\n";
  for (const Json& l : plan.at("layouts")) {
    const auto number = [&l](const char* key) { return l.at(key).get<double>(); };
    absl::StrAppend(&t, "<tr><td>", Escape(l.at("text").get<std::string>()), "</td><td>",
                    l.value("extended", false) || l.value("folding_adds", 0.0) > 0 ? "≈ " : "",
                    SecondsText(number("seconds")), "</td><td>", SecondsText(number("low")), " to ",
                    SecondsText(number("high")), "</td><td>", pictures::Number(number("tokens_per_second")),
                    "</td><td>", ShareText(number("mfu")), "</td><td>", BytesText(number("bytes")), "</td><td>",
                    ShareText(number("bubble")), "</td><td>", SecondsText(number("exposed")), "</td></tr>\n");
  }
  return t + "</table></div>";
}

}  // namespace

absl::StatusOr<std::string> PlanPage(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(folder + "/plan.json"), spec = ReadFile(folder + "/spec.textproto");
  if (!text.ok()) return text.status();
  if (!spec.ok()) return spec.status();
  const Json plan = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (plan.is_discarded()) return InvalidArgument(folder, "/plan.json: is not JSON");
  Json data{{"kind", "plan"}, {"choices", kChoices}};
  if (absl::Status s = ReadLayouts(folder + "/layouts.csv", data); !s.ok()) return s;
  try {
    data["device_bytes"] = plan.at("layouts").empty() ? Json(0) : plan.at("layouts")[0].at("device_bytes");
    std::string proof = absl::StrCat("Of ", plan.at("proof").get<std::string>().substr(3), ". ");
    const std::string least = SecondsText(plan.at("least_seconds").get<double>());
    absl::StrAppend(&proof,
                    plan.at("proven").get<bool>() ? "Proven: no layout can take less than "
                                                  : "Not proven: a layout may take as little as ",
                    least, ".");
    const std::string title = absl::StrCat("Plan: ", folder), table = TableOf(plan), escaped = Escape(*spec),
                      safe = Escape(title), said = Escape(proof);
    return WholePage(title, Filled(kPlanBody, {{"title", safe}, {"proof", said}, {"table", table}, {"spec", escaped}}),
                     Packed(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
  } catch (const Json::exception& e) {
    return InvalidArgument(folder, "/plan.json: ", e.what());
  }
}

}  // namespace twofold::page
