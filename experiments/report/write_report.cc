#include "experiments/report/write_report.h"

#include "core/base/strings.h"
#include "experiments/report/files.h"
#include "experiments/report/json.h"
#include "experiments/report/tables.h"
#include "experiments/report/trace.h"
#include "experiments/spec/spec.h"

namespace twofold {

absl::Status WriteReport(const std::string& folder, const report::Report& report, const spec::Spec& spec,
                         absl::Span<const report::RankRecord> records) {
  report::Report versioned = report;
  if (!versioned.has_schema_version()) versioned.set_schema_version(kReportSchemaVersion);
  return WriteFiles(folder, {{"steps.csv", StepsCsv(report)},
                             {"validation.csv", ValidationCsv(report)},
                             {"memory.csv", MemoryCsv(records)},
                             {"collectives.csv", CollectivesCsv(report)},
                             {"trace.json", TraceJson(records)},
                             {"spec.textproto", SpecToText(spec)},
                             {"report.json", JsonText(ToJson(versioned))}});
}

absl::StatusOr<report::Report> ReadReport(const std::string& folder) {
  const std::string path = StrCat(folder, "/report.json");
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        StrCat(text.status().message(), "; give a folder that `twofold run` wrote"));
  }
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(StrCat(path, ": is not JSON; give a folder that `twofold run` wrote"));
  }
  report::Report report;
  if (absl::Status status = FromJson(json, &report); !status.ok()) {
    return absl::InvalidArgumentError(StrCat(path, ": ", status.message()));
  }
  if (report.schema_version() != kReportSchemaVersion) {
    return absl::InvalidArgumentError(StrCat(path, ": schema_version: ", report.schema_version(),
                                             " is not what this program reads; use ", kReportSchemaVersion));
  }
  return report;
}

}  // namespace twofold
