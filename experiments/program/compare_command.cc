// twofold compare DIR_PREDICTED DIR_MEASURED
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/commands.h"
#include "experiments/program/compare.h"
#include "experiments/program/comparison_text.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/write_report.h"

namespace twofold {
namespace {

struct CompareOptions {
  std::string predicted;
  std::vector<std::string> measured;
  std::string format = "text", max_error;
  bool json = false;
  std::string shown_notes = "short";
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

// A share; nullopt: no limit was given.
absl::StatusOr<std::optional<double>> MaxErrorOf(const std::string& given) {
  if (given.empty()) return std::nullopt;
  std::string text = given;
  if (text.ends_with('%')) text.pop_back();
  double percent = 0;
  if (!absl::SimpleAtod(text, &percent) || !(percent >= 0 && std::isfinite(percent)))
    return InvalidArgument("--max-error=", given, ": use a share of the measured step time, in percent, such as 5%");
  return percent / 100;
}

std::string Printed(const CompareOptions& options, const std::vector<Comparison>& comparisons) {
  if (options.json || options.format == "json") return JsonText(ComparisonJson(comparisons));
  if (options.format == "markdown") return ComparisonMarkdown(comparisons, options.shown_notes);
  if (options.format == "csv") return ComparisonCsv(comparisons);
  return ComparisonText(comparisons, options.shown_notes);
}

int RunCompare(const CompareOptions& options) {
  const absl::StatusOr<std::optional<double>> most = MaxErrorOf(options.max_error);
  if (!most.ok()) {
    LogError(most.status().message());
    return kExitWrongInput;
  }
  const absl::StatusOr<std::vector<Comparison>> comparison = CompareFolders(options);
  if (!comparison.ok()) {
    LogError(comparison.status().message());
    return kExitWrongInput;
  }
  const std::string text = Printed(options, *comparison);
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
  if (!*most) return kExitFine;
  const std::string above = ErrorsAbove(*comparison, **most);
  if (above.empty()) return kExitFine;
  LogError("--max-error=", options.max_error, ": ", above);
  return kExitFailed;
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
  command.AddOption("--format=FORMAT", options->format, "how to print")
      .OneOf({"text", "markdown", "csv", "json"})
      .ShowDefault();
  command.AddFlag("--json", options->json, "as --format=json");
  AddNotesOption(command, options->shown_notes);
  command.AddOption("--max-error=PERCENT", options->max_error,
                    "fail if a step time is off by more than this, in percent: --max-error=5%");
  command.Footer(
      "Errors are (predicted - measured) / measured. Memory is that of the rank that uses most.\n"
      "Two predictions, two measurements, or runs that do different work are shown side by side; whether one lies in "
      "the other's interval\n"
      "is not judged. --max-error holds for their difference, too: for example in a test that a prediction does not "
      "change.\n"
      "Exit status: 0 fine, whatever the errors are; 1 a step time is off by more than --max-error; 2 a folder has no "
      "report of a run,\n"
      "or the measurement is given first.\n"
      "\nExamples:\n"
      "  twofold run my.textproto --fabric=simulated\n"
      "  twofold run my.textproto --fabric=in_memory\n"
      "  twofold compare runs/my-simulated runs/my-in_memory\n"
      "  twofold compare runs/my-simulated runs/my-in_memory runs/my-mpi\n"
      "  twofold compare --max-error=5% --format=markdown runs/my-simulated runs/my-mpi");
  command.OnParsed([options, &exit_status] { exit_status = RunCompare(*options); });
}

}  // namespace twofold
