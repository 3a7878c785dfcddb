#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
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

bool IsComparable(const Json& row) {
  const auto positive = [&](const char* key) {
    return row.contains(key) && row[key].is_number() && row[key].get<double>() > 0;
  };
  return positive("predicted") && positive("measured");
}

// What rows can be told apart by: fields of a few values each, those that say most first.
std::vector<std::string> ChoicesOf(const Json& rows) {
  constexpr size_t kMostValues = 48;
  std::vector<std::string> order = {"role", "table", "system"};
  std::map<std::string, std::set<std::string>> values;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (value.is_structured() || key == "name" || key == "unit" || key == "predicted" || key == "measured" ||
          key == "error" || key == "low" || key == "high")
        continue;
      if (values.find(key) == values.end() && std::find(order.begin(), order.end(), key) == order.end())
        order.push_back(key);
      if (values[key].size() <= kMostValues) values[key].insert(value.dump());
    }
  }
  std::erase_if(order,
                [&](const std::string& key) { return values[key].size() < 2 || values[key].size() > kMostValues; });
  return order;
}

// Medians of absolute errors, by role and unit: there without JavaScript, too.
std::string TableOf(const Json& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
  for (const Json& row : rows) {
    if (!IsComparable(row)) continue;
    errors[{row.value("role", "none"), row.value("unit", "")}].push_back(
        std::abs(row["predicted"].get<double>() / row["measured"].get<double>() - 1));
  }
  std::string table =
      "<div class=wrap><table id=study-table><tr><th>role</th><th>unit</th><th>rows</th><th>median "
      "error</th><th>largest</th></tr>\n";
  for (auto& [key, of] : errors) {
    std::sort(of.begin(), of.end());
    const size_t middle = of.size() / 2;
    const double median = of.size() % 2 == 1 ? of[middle] : (of[middle - 1] + of[middle]) / 2;
    absl::StrAppend(&table, "<tr><td>", Escape(key.first), "</td><td>", Escape(key.second), "</td><td>", of.size(),
                    "</td><td>", ShareText(median), "</td><td>", ShareText(of.back()), "</td></tr>\n");
  }
  return table + "</table></div>";
}

}  // namespace

absl::StatusOr<std::string> StudyPage(const std::string& folder) {
  const std::string file = folder + "/results.json";
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return text.status();
  Json data = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (data.is_discarded()) return InvalidArgument(file, ": is not JSON");
  try {
    const Json& rows = data.at("rows");
    if (!rows.is_array())
      return InvalidArgument(file, ": rows: is not a list; expected what a study's run.py --write wrote");
    const auto comparable = std::count_if(rows.begin(), rows.end(), IsComparable);
    const std::string study = data.at("study").get<std::string>(), title = absl::StrCat("Study: ", study),
                      safe = Escape(title), command = Escape(data.at("command").get<std::string>()),
                      table = TableOf(rows),
                      count = absl::StrCat(Counted(static_cast<int64_t>(rows.size()), "row"), ", ",
                                           CountText(comparable), " with a prediction and a measurement above 0");
    data["choices"] = ChoicesOf(rows);
    data["kind"] = "study";
    if (study == "scoreboard") data["row_command"] = "experiments/studies/scoreboard/run.py --spec={name}";
    return WholePage(title,
                     Filled(kStudyBody, {{"title", safe}, {"rows", count}, {"command", command}, {"table", table}}),
                     Packed(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
  } catch (const Json::exception& e) {
    return InvalidArgument(file, ": ", e.what());
  }
}

}  // namespace twofold::page
