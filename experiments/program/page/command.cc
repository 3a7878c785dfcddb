#include "experiments/program/page/command.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/page/page.h"
#include "experiments/program/pictures/memory_picture.h"
#include "experiments/program/pictures/perfetto_trace.h"
#include "experiments/program/pictures/run_data.h"
#include "experiments/program/pictures/schedule_picture.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/pictures/timeline_picture.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;
using namespace pictures;

struct Options {
  std::vector<std::string> folders;
  std::string out, trace;
  bool json = false;
};

absl::Status WriteText(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return Internal(path.string(), ": cannot be written");
  return absl::OkStatus();
}

// Names of files are added to `written` as they are written.
absl::Status Write(const Options& o, std::vector<std::string>& written) {
  const auto write = [&written](const fs::path& path, const std::string& text) {
    absl::Status status = WriteText(path, text);
    if (status.ok()) written.push_back(path.string());
    return status;
  };
  const fs::path page = o.out.empty() ? fs::path(o.folders.back()) / "report.html" : fs::path(o.out);
  std::vector<RunData> read;
  const absl::StatusOr<std::string> text = page::PageOfFolders(o.folders, &read);
  if (!text.ok()) return InvalidArgument(text.status().message());
  if (absl::Status s = CheckOutFile("--out", page.string()); !s.ok()) return s;
  if (absl::Status s = write(page, *text); !s.ok()) return s;
  std::vector<const RunData*> runs;
  for (const RunData& run : read) runs.push_back(&run);
  const std::pair<const char*, std::string> svgs[] = {{"schedule.svg", SchedulePicture(StoriesOf(runs))},
                                                      {"timeline.svg", TimelinePicture(runs)},
                                                      {"memory.svg", MemoryPicture(runs)}};
  for (const auto& [name, svg] : svgs) {
    if (svg.empty()) continue;
    if (absl::Status s = write(page.parent_path() / name, StandAlone(svg)); !s.ok()) return s;
  }
  for (const RunData& run : read) {
    if (o.trace.empty()) break;
    const fs::path path = fs::path(run.folder) / "trace.pftrace";
    if (absl::Status s = CheckOutFile("--trace", path.string()); !s.ok()) return s;
    if (absl::Status s = write(path, PerfettoTrace(run)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<Options>();
  const Command command = program.AddCommand(
      "report", "draws runs, predictions above measurements, a plan, a sweep, a storm or a study as one HTML page");
  command
      .AddOption("DIR", options->folders,
                 "the folders of runs, in the order in which they are drawn; or the folder of a plan, a sweep or a "
                 "storm's replay")
      .Required();
  command.AddOption("--out=FILE", options->out, "the page to write; default: report.html in the last folder");
  command
      .AddOption("--trace=FORMAT", options->trace,
                 "pftrace: also writes trace.pftrace into each folder, for Perfetto (ui.perfetto.dev)")
      .OneOf({"pftrace"});
  command.AddFlag("--json", options->json, "print JSON: {files}, the names of the files written");
  command.Footer(
      "The page of runs has a time line to zoom, the pipeline, memory, loads of links, the parts of a step, losses and "
      "collectives. "
      "Each "
      "report says whether\n"
      "it is a prediction or a measurement. The page of a plan has a dot for every legal layout, the page of a sweep "
      "any "
      "figure over any field,\n"
      "that of a storm what each rank did in the schedule that --replay ran, and what struck it,\n"
      "that of a study (experiments/studies) predictions over measurements, a dot a row.\n"
      "A page needs no other file and no network (docs/reports.md). For runs, timeline.svg, memory.svg and, for a "
      "pipeline, schedule.svg are\n"
      "written beside it. The names of all files written are printed.\n"
      "With --trace=pftrace, the time line is written in Perfetto's own format, too. It is smaller than trace.json, "
      "and has "
      "arrows from sends to\n"
      "receives, arguments (shape, bytes, label, micro-batch, stage, waiting) and counters of memory and of loads of "
      "links.\n"
      "Exit status: 0 fine; 1 a file cannot be written; 2 a folder has no report of a run.\n"
      "\nExamples:\n"
      "  twofold report runs/my-in_memory\n"
      "  twofold report runs/my-simulated runs/my-in_memory --out=my.html\n"
      "  twofold plan my.textproto --out=runs/plan && twofold report runs/plan\n"
      "  twofold report --trace=pftrace runs/my-simulated");
  command.OnParsed([options, &exit_status] {
    std::vector<std::string> written;
    const absl::Status status = Write(*options, written);
    if (options->json) {
      std::cout << JsonText({{"files", written}});
    } else {
      for (const std::string& name : written) std::cout << name << "\n";
    }
    if (status.ok()) return;
    LogError(status.message());
    exit_status = status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
  });
}

}  // namespace twofold
