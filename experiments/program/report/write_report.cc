#include "experiments/program/report/write_report.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/note_names.h"
#include "experiments/program/report/chakra_files.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/goal_file.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/link_files.h"
#include "experiments/program/report/memory_blocks_file.h"
#include "experiments/program/report/network_file.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/simulation_costs.h"
#include "experiments/program/report/tables.h"
#include "experiments/program/report/trace.h"
#include "experiments/program/spec/spec.h"

namespace twofold {

namespace {

// Whether routers chose, and no assumption stood in for them.
bool HasRouters(const spec::Spec& spec) {
  if (!spec.model().moe().dropless() || spec.device() == spec::EMULATED) return false;
  return !spec.fabric().has_simulated() || spec.fabric().simulated().data() == spec::Simulated::REAL;
}

}  // namespace

nlohmann::ordered_json ReportJson(const report::Report& report) {
  report::Report versioned = report;
  if (!versioned.has_schema_version()) versioned.set_schema_version(kReportSchemaVersion);
  versioned.clear_note_names();
  for (const std::string& note : versioned.notes()) versioned.add_note_names(std::string(NoteName(note)));
  return ToJson(versioned);
}

std::string ReportText(const report::Report& report) { return JsonText(ReportJson(report)); }

absl::Status WriteReport(const std::string& folder, const report::Report& report, const spec::Spec& spec,
                         const RankRecords& records, const std::vector<RunResult::Cost>& costs,
                         const LinkLoads& links) {
  std::vector<NamedText> files = {{"steps.csv", StepsCsv(report)},
                                  {"validation.csv", ValidationCsv(report)},
                                  {"memory.csv", MemoryCsv(records)},
                                  {"collectives.csv", CollectivesCsv(report)}};
  if (!costs.empty()) files.push_back({"simulate.csv", SimulationCostsCsv(costs)});
  if (!links.rows.empty()) {
    files.push_back({kLinks, LinksCsv(links)});
    files.push_back({kLinkLoads, LinkLoadsCsv(links, TraceOrigin(records))});
    files.push_back({kNetwork, NetworkFileBytes(links.pictures, TraceOrigin(records))});
  }
  const std::string blocks = MemoryBlocksFileBytes(records);
  if (!blocks.empty()) files.push_back({kMemoryBlocks, blocks});
  const std::string routing = HasRouters(spec) ? RoutingCsv(records) : "";
  if (!routing.empty()) files.push_back({"routing.csv", routing});
  if (spec.trace().enabled()) files.push_back({"trace.json", TraceJson(records)});
  files.push_back({"spec.textproto", SpecFileText(spec)});
  files.push_back({"report.json", ReportText(report)});
  absl::Status status = WriteFiles(folder, files);
  const std::string chakra = StrCat(folder, "/", kChakraFolder);
  std::error_code none;
  std::filesystem::remove_all(chakra, none);  // another run's ranks
  if (const std::vector<NamedText> graphs = ChakraFiles(records, report.name()); status.ok() && !graphs.empty())
    status = WriteFiles(chakra, graphs);
  const std::string goal = StrCat(folder, "/", kGoalFolder);
  std::filesystem::remove_all(goal, none);
  if (std::string schedule = GoalSchedule(records); status.ok() && !schedule.empty())
    status = WriteFiles(goal, {{kGoalSchedule, std::move(schedule)}});
  if (status.ok() && blocks.empty()) status = RemoveFile(StrCat(folder, "/", kMemoryBlocks));
  for (const char* name : {kLinks, kLinkLoads, kNetwork})
    if (status.ok() && links.rows.empty()) status = RemoveFile(StrCat(folder, "/", name));
  if (status.ok() && costs.empty()) status = RemoveFile(StrCat(folder, "/simulate.csv"));
  if (status.ok() && routing.empty()) status = RemoveFile(StrCat(folder, "/routing.csv"));
  if (status.ok() && !spec.trace().enabled()) status = RemoveFile(StrCat(folder, "/trace.json"));
  return status;
}

absl::Status MoveReport(const std::string& from, const std::string& to) {
  if (absl::Status made = MakeOutFolder("the report's folder", to); !made.ok()) return made;
  for (const char* name :
       {"steps.csv", "validation.csv", "memory.csv", kMemoryBlocks, kLinks, kLinkLoads, kNetwork, "collectives.csv",
        "simulate.csv", "routing.csv", "trace.json", kChakraFolder, kGoalFolder, "spec.textproto", "report.json"}) {
    const std::string path = StrCat(from, "/", name), moved = StrCat(to, "/", name);
    std::error_code error;
    if (std::filesystem::is_directory(moved, error)) std::filesystem::remove_all(moved, error);
    if (std::filesystem::exists(path, error))
      std::filesystem::rename(path, moved, error);
    else
      std::filesystem::remove(moved, error);
    if (error) return Unavailable(path, ": cannot be moved to ", moved, ": ", error.message());
  }
  return absl::OkStatus();
}

namespace {

using Json = nlohmann::ordered_json;

constexpr char kOwnFolder[] = "give a folder that `twofold run` wrote";

absl::StatusOr<Json> Parse(const std::string& text) {
  if (text.empty()) return InvalidArgument("is empty; ", kOwnFolder);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    if (error.byte > text.size())
      return InvalidArgument("ends at byte ", text.size(), " and seems to be cut short; ", kOwnFolder);
    return InvalidArgument("byte ", error.byte, ": is not JSON; ", kOwnFolder);
  } catch (const Json::exception&) {
    return InvalidArgument("has a number that is too large to read; ", kOwnFolder);
  }
}

// Checked before the fields, some of which this program may not know.
absl::Status CheckVersion(const Json& json) {
  if (!json.is_object()) return absl::OkStatus();  // refused later, as not an object
  const auto version = json.find("schema_version");
  if (version == json.end()) return InvalidArgument("schema_version: is missing; ", kOwnFolder);
  if (!version->is_number_integer() || *version == kReportSchemaVersion) return absl::OkStatus();
  return InvalidArgument("schema_version ", version->dump(),
                         *version > kReportSchemaVersion
                             ? " is of a later version of Twofold; use that one, or a later one"
                             : " never existed",
                         "; this program reads ", kReportSchemaVersion);
}

// Checks the fields that every run writes and every reader of reports needs.
absl::Status CheckFields(const Json& json, const report::Report& r) {
  for (const char* field : {"name", "fabric", "predicted", "outcome", "world_size", "median_step_seconds", "low",
                            "high", "steps", "ranks"}) {
    if (!json.contains(field)) return InvalidArgument(field, ": is missing; ", kOwnFolder);
  }
  const auto check = [](bool fine, const auto& field, auto value, std::string_view right) {
    return fine ? absl::OkStatus() : InvalidArgument(field, ": ", value, " is out of range; expected ", right);
  };
  constexpr std::string_view kNotNegative = "0 or more", kOne = "1 or more";
  absl::Status status = check(r.world_size() >= 1, "world_size", r.world_size(), kOne);
  for (const auto& [field, value] :
       {std::pair("median_step_seconds", r.median_step_seconds()), {"low", r.low()}, {"high", r.high()}}) {
    status.Update(check(value >= 0, field, value, kNotNegative));
  }
  for (int i = 0; i < r.steps_size(); ++i)
    status.Update(
        check(r.steps(i).seconds() >= 0, StrCat("steps[", i, "].seconds"), r.steps(i).seconds(), kNotNegative));
  constexpr int64_t kMostRanks = 1 << 20;  // the bound of a spec
  status.Update(check(r.world_size() <= kMostRanks, "world_size", r.world_size(), StrCat("1 to ", kMostRanks)));
  if (status.ok()) status = CheckRankRows(r);
  for (int i = 0; i < r.ranks_size(); ++i) {
    const report::Rank& rank = r.ranks(i);
    const std::string path = StrCat("ranks[", i, "].");
    status.Update(check(rank.peak_bytes() >= 0, path + "peak_bytes", rank.peak_bytes(), kNotNegative));
    status.Update(check(rank.reserved_bytes() >= 0, path + "reserved_bytes", rank.reserved_bytes(), kNotNegative));
  }
  if (r.outcome() == report::OK && r.ranks().empty()) {
    status.Update(InvalidArgument("ranks: is empty, although outcome is OK; expected a row for each of ",
                                  r.world_size(), " ranks"));
  }
  return status;
}

absl::StatusOr<report::Report> ReportFrom(const std::string& text) {
  const absl::StatusOr<Json> json = Parse(text);
  if (!json.ok()) return json.status();
  absl::Status status = CheckVersion(*json);
  report::Report report;
  if (status.ok()) status = FromJson(*json, &report);
  if (status.ok()) status = CheckFields(*json, report);
  if (!status.ok()) return status;
  return report;
}

}  // namespace

absl::StatusOr<report::Report> ReadReport(const std::string& folder) {
  const std::string path = StrCat(folder, "/report.json");
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return InvalidArgument(text.status().message(), "; ", kOwnFolder);
  absl::StatusOr<report::Report> report = ReportFrom(*text);
  if (!report.ok()) return InvalidArgument(path, ": ", report.status().message());
  return report;
}

absl::StatusOr<spec::Spec> ReadSpecOf(const std::string& folder) {
  const std::string path = StrCat(folder, "/spec.textproto");
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return InvalidArgument(text.status().message(), "; ", kOwnFolder);
  return ParseSpec(*text, path);
}

}  // namespace twofold
