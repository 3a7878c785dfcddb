#include <filesystem>
#include <nlohmann/json.hpp>

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

std::string Cells(const Json& side) {
  if (!side.contains("median_step_seconds"))
    return absl::StrCat("<td colspan=5 class=left>", Escape(side.value("why", "not known")), "</td>");
  const auto number = [&side](const char* key) { return side.value(key, 0.0); };
  return absl::StrCat(
      "<td>", SecondsText(number("median_step_seconds")), "</td><td>", pictures::Number(number("tokens_per_second")),
      "</td><td>", number("speed_up") > 0 ? pictures::Number(number("speed_up")) : "-", "</td><td>",
      BytesText(number("peak_bytes")), "</td><td>", SecondsText(number("exposed_communication_seconds")), "</td>");
}

std::string TableOf(const Json& sweep) {
  std::string head = "<tr><th>point</th><th>ranks</th>", rows;
  for (const char* side : {"predicted", "measured"}) {
    bool any = false;
    for (const Json& p : sweep.at("points")) any = any || p.contains(side);
    if (!any) continue;
    for (const char* figure : {"step time", "tokens/s", "speed-up", "peak memory", "exposed communication"})
      absl::StrAppend(&head, "<th>", side, ": ", figure, "</th>");
  }
  for (const Json& p : sweep.at("points")) {
    std::string name;
    for (const auto& [field, value] : p.at("set").items())
      absl::StrAppend(&name, name.empty() ? "" : " ", field, "=",
                      value.is_string() ? value.get<std::string>() : value.dump());
    absl::StrAppend(&rows, "<tr><td>", Escape(name), "</td><td>", p.value("ranks", int64_t{0}), "</td>");
    for (const char* side : {"predicted", "measured"}) {
      if (p.contains(side)) rows += Cells(p.at(side));
    }
    rows += "</tr>\n";
  }
  return absl::StrCat("<div class=wrap><table id=sweep-table>", head, "</tr>\n", rows, "</table></div>");
}

}  // namespace

absl::StatusOr<std::string> SweepPage(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadFile(folder + "/sweep.json");
  if (!text.ok()) return text.status();
  Json data = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (data.is_discarded()) return InvalidArgument(folder, "/sweep.json: is not JSON");
  std::string picture;
  if (std::filesystem::exists(folder + "/sweep.svg")) {
    const absl::StatusOr<std::string> svg = ReadFile(folder + "/sweep.svg");
    if (!svg.ok()) return svg.status();
    picture = *svg;
  }
  try {
    const std::string title = absl::StrCat("Sweep: ", data.at("name").get<std::string>());
    std::string how = data.at("fabric").get<std::string>();
    const std::string scaling = data.at("scaling").get<std::string>();
    if (scaling != "none") absl::StrAppend(&how, ", ", scaling, " scaling");
    const std::string table = TableOf(data), safe = Escape(title), told = Escape(how);
    data["kind"] = "sweep";
    return WholePage(title,
                     Filled(kSweepBody, {{"title", safe}, {"how", told}, {"picture", picture}, {"table", table}}),
                     Packed(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
  } catch (const Json::exception& e) {
    return InvalidArgument(folder, "/sweep.json: ", e.what());
  }
}

}  // namespace twofold::page
