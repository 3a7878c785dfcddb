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

std::string TextAt(const Json& json, const char* key) { return Escape(json.at(key).get<std::string>()); }

std::string ListOf(const Json& texts) {
  std::string list;
  for (const Json& text : texts) absl::StrAppend(&list, "<li>", Escape(text.get<std::string>()), "</li>");
  return absl::StrCat("<ul>", list, "</ul>");
}

// What was drawn, and what became of it.
std::string Disasters(const Json& replay) {
  std::string rows;
  for (size_t i = 0; i < replay.at("disasters").size(); ++i) {
    std::string became;
    for (const Json& s : replay.at("struck")) {
      if (s.at("disaster") != i) continue;
      absl::StrAppend(&became, became.empty() ? "" : "<br>", "rank ", s.at("rank").get<int64_t>(), " ",
                      TextAt(s, "text"));
      if (!s.at("seconds").is_null()) absl::StrAppend(&became, ", after ", SecondsText(s.at("seconds").get<double>()));
    }
    absl::StrAppend(&rows, "<tr><td>", Escape(replay.at("disasters").at(i).get<std::string>()), "</td><td class=left>",
                    became.empty() ? "not by a fault of a rank, or not before the run ended" : became, "</td></tr>\n");
  }
  return absl::StrCat("<div class=wrap><table id=storm-disasters><tr><th>drawn</th><th class=left>happened</th></tr>\n",
                      rows, "</table></div>");
}

std::string Broken(const Json& replay) {
  std::string text;
  for (const Json& broken : replay.at("broken"))
    absl::StrAppend(&text, "<div class=bad><b>broke ", TextAt(broken, "rule"), "</b>\n", TextAt(broken, "text"),
                    "</div>");
  return text.empty() ? "<p>No rule was broken.</p>" : text;
}

}  // namespace

absl::StatusOr<std::string> StormPage(const std::string& folder) {
  const std::string file = folder + "/replay.json";
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return text.status();
  const Json replay = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (replay.is_discarded()) return InvalidArgument(file, ": is not JSON");
  try {
    if (replay.at("kind") != "storm")
      return InvalidArgument(file, ": kind: expected storm, as twofold storm --replay writes it");
    const std::string title = absl::StrCat("Storm: ", replay.at("name").get<std::string>()), safe = Escape(title),
                      seed = TextAt(replay, "seed"), outcome = TextAt(replay, "outcome"),
                      message = TextAt(replay, "message"), disasters = Disasters(replay), broken = Broken(replay),
                      told = ListOf(replay.at("told")), command = TextAt(replay, "command");
    return WholePage(title,
                     Filled(kStormBody, {{"title", safe},
                                         {"seed", seed},
                                         {"outcome", outcome},
                                         {"message", message},
                                         {"disasters", disasters},
                                         {"broken", broken},
                                         {"told", told},
                                         {"command", command}}),
                     Packed(replay.dump(-1, ' ', false, Json::error_handler_t::replace)));
  } catch (const Json::exception& e) {
    return InvalidArgument(file, ": ", e.what());
  }
}

}  // namespace twofold::page
