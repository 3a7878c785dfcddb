// twofold import TRACE... --out=DIR
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/format.h"
#include "core/base/status.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/import/kineto.h"
#include "experiments/program/import/nsight.h"
#include "experiments/program/measured_run.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> traces, groups;
  std::string out, name, spec, step;
  bool json = false;
};

bool IsTraceFile(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite");
}

// A folder stands for the traces in it.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& path : given) {
    std::error_code none;
    if (!fs::is_directory(path, none)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, none)) {
      if (IsTraceFile(entry.path())) inside.push_back(entry.path().string());
    }
    if (inside.empty())
      return InvalidArgument(path, ": has no traces in it; expected files that end in .json, .json.gz or .sqlite");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

absl::StatusOr<MeasuredRunOptions> OptionsOf(const Options& o) {
  MeasuredRunOptions options;
  options.import.step = o.step;
  for (const std::string& group : o.groups) {
    const size_t equals = group.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == group.size())
      return InvalidArgument("--group=", group, ": use the trace's process group and a name, such as 7=dp");
    options.import.groups[group.substr(0, equals)] = group.substr(equals + 1);
  }
  if (!o.spec.empty()) {
    absl::StatusOr<spec::Spec> spec = LoadSpec(o.spec);
    if (!spec.ok()) return spec.status();
    options.spec = *std::move(spec);
  }
  options.name = o.name;
  if (options.name.empty()) options.name = options.spec ? options.spec->name() : fs::path(o.out).filename().string();
  if (options.name.empty()) options.name = fs::path(o.out).parent_path().filename().string();
  return options;
}

// The traces of a file: one of PyTorch's profiler, one or more of Nsight Systems.
absl::Status AddTraces(const std::string& file, std::vector<RankTrace>& traces) {
  std::string first_bytes(16, '\0');
  std::ifstream(file, std::ios::binary).read(first_bytes.data(), std::ssize(first_bytes));
  if (IsNsight(file, first_bytes)) {
    absl::StatusOr<std::vector<RankTrace>> of_file = ReadNsight(file);
    if (!of_file.ok()) return of_file.status();
    std::move(of_file->begin(), of_file->end(), std::back_inserter(traces));
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> bytes = ReadFile(file);
  if (!bytes.ok()) return InvalidArgument(bytes.status().message());
  absl::StatusOr<RankTrace> trace = ReadKineto(*bytes, file);
  if (!trace.ok()) return trace.status();
  traces.push_back(*std::move(trace));
  return absl::OkStatus();
}

absl::Status Import(const Options& o) {
  const absl::StatusOr<MeasuredRunOptions> options = OptionsOf(o);
  if (!options.ok()) return options.status();
  const absl::StatusOr<std::vector<std::string>> files = FilesOf(o.traces);
  if (!files.ok()) return files.status();
  if (absl::Status made = MakeOutFolder("--out", o.out); !made.ok()) return made;
  std::vector<RankTrace> traces;
  for (const std::string& file : *files) {
    if (absl::Status added = AddTraces(file, traces); !added.ok()) return added;
  }
  const absl::StatusOr<MeasuredRun> run = MeasuredRunOf(std::move(traces), *options);
  if (!run.ok()) return run.status();
  if (absl::Status written = WriteReport(o.out, run->report, run->spec, run->records); !written.ok()) return written;
  const report::Report& r = run->report;
  if (o.json) {
    std::printf("%s", ReportText(r).c_str());
    return absl::OkStatus();
  }
  std::printf("%s of %s, median %s; rank %lld of %lld\nreport: %s\n", Counted(r.steps_size(), "step").c_str(),
              r.name().c_str(), SecondsText(r.median_step_seconds()).c_str(), static_cast<long long>(r.ranks(0).rank()),
              static_cast<long long>(r.world_size()), o.out.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("import", "makes a measured run of traces of PyTorch's profiler or of Nsight Systems");
  auto options = std::make_shared<Options>();
  command
      .AddOption("TRACE", options->traces,
                 "a trace of each rank, .json or .json.gz, as torch.profiler's export_chrome_trace and "
                 "tensorboard_trace_handler write it; or .sqlite, as nsys export --type=sqlite writes it, of one or "
                 "more ranks; or folders of them")
      .Required();
  command.AddOption("--out=DIR", options->out, "the folder of the run").Required();
  command.AddOption("--spec=SPEC", options->spec,
                    "a spec of the same job, for what traces do not say: model, batch and layout");
  command.AddOption("--step=NAME", options->step,
                    "the annotation of a step, with a number or not: record_function(NAME) or an NVTX range; default: "
                    "ProfilerStep");
  command
      .AddOption("--group=PG=NAME", options->groups,
                 "what the report calls a process group, by its description or name in the trace")
      .Repeatable();
  command.AddOption("--name=NAME", options->name, "the name of the run; default: the spec's, else that of the folder");
  command.AddFlag("--json", options->json, "print the run's report.json");
  command.Footer(
      "Read are kernels, copies, launches, annotations, collectives with their process groups and, with "
      "profile_memory=True, memory. The run's\n"
      "folder is like that of `twofold run`: `twofold compare` and `twofold report` read it. A step lasts from its "
      "first "
      "work on the GPU to the\n"
      "next step's. In it each moment is a kernel's, else a collective's (exposed communication), else a copy's, else "
      "the host's. The report's\n"
      "notes say what the traces do not tell. Without --spec, `twofold compare` takes the job for the prediction's.\n"
      "Exit status: 0 fine; 1 the folder cannot be written; 2 a file is no such trace, or the files are not of one "
      "job.\n"
      "\nExamples:\n"
      "  twofold import rank0.json.gz rank1.json.gz --out=runs/mine-pytorch --spec=mine.textproto\n"
      "  twofold import log/profiler --out=runs/mine-pytorch --group=default_pg=dp\n"
      "  nsys export --type=sqlite node0.nsys-rep\n"
      "  twofold import node0.sqlite --step=iteration --out=runs/mine-nsys\n"
      "  twofold compare runs/mine-simulated runs/mine-pytorch");
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Import(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = status.code() == absl::StatusCode::kInvalidArgument ? kExitWrongInput : kExitFailed;
  });
}

}  // namespace twofold
