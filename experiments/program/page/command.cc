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
#include "experiments/program/pictures/run_data.h"
#include "experiments/program/pictures/schedule_picture.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/pictures/timeline_picture.h"
#include "experiments/program/report/files.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;
using namespace pictures;

struct Options {
  std::vector<std::string> folders;
  std::string out;
};

absl::Status WriteText(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return Internal(path.string(), ": cannot be written");
  std::cout << path.string() << "\n";
  return absl::OkStatus();
}

// The pictures beside the page.
absl::Status WritePictures(const fs::path& folder, const std::vector<const RunData*>& runs) {
  const std::pair<const char*, std::string> svgs[] = {{"schedule.svg", SchedulePicture(StoriesOf(runs))},
                                                      {"timeline.svg", TimelinePicture(runs)},
                                                      {"memory.svg", MemoryPicture(runs)}};
  for (const auto& [name, svg] : svgs) {
    if (svg.empty()) continue;
    if (absl::Status s = WriteText(folder / name, StandAlone(svg)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status WriteRuns(const Options& o, const fs::path& page) {
  std::vector<RunData> read;
  for (const std::string& folder : o.folders) {
    auto run = ReadRun(folder);
    if (!run.ok()) return InvalidArgument(run.status().message());
    read.push_back(*std::move(run));
  }
  std::vector<const RunData*> runs;
  for (const RunData& run : read) runs.push_back(&run);
  if (absl::Status s = CheckOutFile("--out", page.string()); !s.ok()) return s;
  if (absl::Status s = WriteText(page, page::PageOf(runs)); !s.ok()) return s;
  return WritePictures(page.parent_path(), runs);
}

absl::Status Write(const Options& o) {
  const fs::path page = o.out.empty() ? fs::path(o.folders.back()) / "report.html" : fs::path(o.out);
  for (const std::string& folder : o.folders) {
    const bool plan = fs::exists(fs::path(folder) / "plan.json"), sweep = fs::exists(fs::path(folder) / "sweep.json");
    if (!plan && !sweep) continue;
    if (o.folders.size() > 1)
      return InvalidArgument(folder, " is a ", plan ? "plan" : "sweep",
                             ", which has a page of its own; give its folder alone");
    const absl::StatusOr<std::string> text = plan ? page::PlanPage(folder) : page::SweepPage(folder);
    if (!text.ok()) return InvalidArgument(text.status().message());
    if (absl::Status s = CheckOutFile("--out", page.string()); !s.ok()) return s;
    return WriteText(page, *text);
  }
  return WriteRuns(o, page);
}

}  // namespace

void AddReportCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.AddCommand("report", "draws runs, predictions above measurements, a plan or a sweep as one HTML page");
  command
      .AddOption("DIR", options->folders,
                 "the folders of runs, in the order in which they are drawn; or the folder of a plan or of a sweep")
      .Required();
  command.AddOption("--out", options->out, "the page to write; default: report.html in the last folder");
  command.Footer(
      "The page of runs has a time line to zoom, the pipeline, memory, the parts of a step, losses and collectives. "
      "Each "
      "report says whether\n"
      "it is a prediction or a measurement. The page of a plan has a dot for every legal layout, the page of a sweep "
      "any "
      "figure over any field.\n"
      "A page needs no other file and no network (docs/reports.md). For runs, timeline.svg, memory.svg and, for a "
      "pipeline, schedule.svg are\n"
      "written beside it. The names of all files written are printed.\n"
      "Exit status: 0 fine; 1 a file cannot be written; 2 a folder has no report of a run.\n"
      "\nExamples:\n"
      "  twofold report runs/my-in_memory\n"
      "  twofold report runs/my-simulated runs/my-in_memory --out=my.html\n"
      "  twofold plan my.textproto --out=runs/plan && twofold report runs/plan");
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Write(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
  });
}

}  // namespace twofold
