#include "experiments/program/report/simulation_costs.h"

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/report/json.h"

namespace twofold {

std::string SimulationCostsCsv(const std::vector<RunResult::Cost>& costs) {
  std::string text = "part,seconds,bytes,count\n";
  const auto number = [](const auto& value) {
    return value.has_value() ? nlohmann::ordered_json(*value).dump() : std::string();
  };
  for (const RunResult::Cost& c : costs)
    StrAppend(&text, c.part, ",", number(c.seconds), ",", number(c.bytes), ",", number(c.count), "\n");
  return text;
}

std::string SimulationCostsText(const std::vector<RunResult::Cost>& costs) {
  std::vector<std::vector<std::string>> rows = {{"the simulation itself", "wall time", "memory", "count"}};
  for (const RunResult::Cost& c : costs) {
    rows.push_back({c.part, c.seconds ? SecondsText(*c.seconds) : "",
                    c.bytes ? BytesText(static_cast<double>(*c.bytes)) : "", c.count ? CountText(*c.count) : ""});
  }
  return StrCat(
      TableText(rows),
      "ranks, collectives, flows and engine: shares of set-up and training, estimated from so many samples\n");
}

}  // namespace twofold
