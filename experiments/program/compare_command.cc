// twofold compare DIR_PREDICTED DIR_MEASURED
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/compare.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/write_report.h"

namespace twofold {
namespace {

struct CompareOptions {
  std::string predicted;
  std::vector<std::string> measured;
  bool json = false;
};

struct Run {
  report::Report report;
  spec::Spec spec;
};

absl::StatusOr<Run> ReadRun(const std::string& folder) {
  absl::StatusOr<report::Report> report = ReadReport(folder);
  if (!report.ok()) return report.status();
  absl::StatusOr<spec::Spec> spec = ReadSpecOf(folder);
  if (!spec.ok()) return spec.status();
  return Run{*std::move(report), *std::move(spec)};
}

absl::StatusOr<std::vector<Comparison>> CompareFolders(const CompareOptions& options) {
  absl::StatusOr<Run> predicted = ReadRun(options.predicted);
  if (!predicted.ok()) return predicted.status();
  std::vector<Comparison> comparisons;
  for (const std::string& folder : options.measured) {
    absl::StatusOr<Run> measured = ReadRun(folder);
    if (!measured.ok()) return measured.status();
    if (!predicted->report.predicted() && measured->report.predicted()) {
      return InvalidArgument(options.predicted, " was measured and ", folder,
                             " was predicted; give the prediction first");
    }
    comparisons.push_back(Compare(predicted->report, predicted->spec, measured->report, measured->spec));
  }
  return comparisons;
}

int RunCompare(const CompareOptions& options) {
  const absl::StatusOr<std::vector<Comparison>> comparison = CompareFolders(options);
  if (!comparison.ok()) {
    LogError(comparison.status().message());
    return kExitWrongInput;
  }
  const std::string text = options.json ? JsonText(ComparisonJson(*comparison)) : ComparisonText(*comparison);
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
  return kExitFine;
}

}  // namespace

void AddCompareCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("compare", "compares a prediction with measurements");
  auto options = std::make_shared<CompareOptions>();
  command.AddOption("DIR_PREDICTED", options->predicted, "folder of a simulated run").Required();
  command
      .AddOption("DIR_MEASURED", options->measured,
                 "folders of runs of the same spec on real fabrics; each gets a column")
      .Required();
  command.AddFlag("--json", options->json, "print JSON instead of a table");
  command.Footer(
      "Errors are (predicted - measured) / measured. Memory is that of the rank that uses most.\n"
      "Two predictions, two measurements, or runs that do different work are shown side by side and not judged.\n"
      "Exit status: 0 fine, whatever the errors are; 2 a folder has no report of a run, or the measurement is given "
      "first.\n"
      "\nExamples:\n"
      "  twofold run my.textproto --fabric=simulated\n"
      "  twofold run my.textproto --fabric=in_memory\n"
      "  twofold compare runs/my-simulated runs/my-in_memory\n"
      "  twofold compare runs/my-simulated runs/my-in_memory runs/my-mpi");
  command.OnParsed([options, &exit_status] { exit_status = RunCompare(*options); });
}

}  // namespace twofold
