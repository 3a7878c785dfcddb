#include "experiments/program/storm/summary.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/storm/rules.h"
#include "experiments/program/storm/schedule.h"

namespace twofold::storm {

void Summary::Add(const Schedule& schedule, const Verdict& verdict) {
  ++schedules_;
  processor_seconds_ += verdict.processor_seconds();
  ++outcomes_[verdict.outcome()];
  for (const auto& [kind, count] : verdict.happened()) happened_[kind] += count;
  std::vector<std::string> rules;
  for (const Broken& broken : verdict.broken()) rules.push_back(broken.rule()), ++rules_[broken.rule()];
  broken_ += rules.empty() ? 0 : 1;
  StrAppend(&csv_, SeedText(schedule.seed()), ",", schedule.disasters_size(), ",\"", verdict.outcome(), "\",",
            absl::StrJoin(rules, " "), absl::StrFormat(",%.4f\n", verdict.processor_seconds()));
}

std::string Summary::Text() const {
  std::vector<std::vector<std::string>> rows = {{"schedules", CountText(schedules_)}};
  for (const auto& [outcome, count] : outcomes_) rows.push_back({StrCat("  ", outcome), CountText(count)});
  rows.push_back({"what happened in them"});
  for (const auto& [kind, count] : happened_) rows.push_back({StrCat("  ", kind), CountText(count)});
  rows.push_back({"schedules that broke a rule", CountText(broken_)});
  for (const auto& [rule, count] : rules_) rows.push_back({StrCat("  ", rule), CountText(count)});
  return TableText(rows);
}

nlohmann::ordered_json Summary::Json() const {
  nlohmann::ordered_json json;
  json["schedules"] = schedules_;
  json["broken"] = broken_;
  json["processor_seconds"] = processor_seconds_;
  json["outcomes"] = outcomes_;
  json["happened"] = happened_;
  json["rules"] = nlohmann::ordered_json::object();
  for (const Rule& rule : Rules()) {
    const auto found = rules_.find(std::string(rule.name));
    json["rules"][std::string(rule.name)] = found == rules_.end() ? 0 : found->second;
  }
  return json;
}

}  // namespace twofold::storm
