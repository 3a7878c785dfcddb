// The `twofold` program.
#include <poll.h>
#include <unistd.h>
#ifdef TWOFOLD_HAVE_MIMALLOC
#include <mimalloc.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/host/cpu_level.h"
#ifdef TWOFOLD_HAVE_MIMALLOC
#include "backends/host/large_pages.h"
#endif
#include "backends/registry.h"
#include "core/base/strings.h"
#include "experiments/program/bench/command.h"
#include "experiments/program/calibrate/command.h"
#include "experiments/program/cli/command_line.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/page/command.h"
#include "experiments/program/spec/presets.h"
#include "experiments/program/version.h"
#include "topologies/catalogue.h"
#include "topologies/frameworks.h"

namespace {

constexpr const char* kTour =
    "A small tour:\n"
    "  twofold quickstart                                 calibrate, predict, train, draw, compare: two minutes\n"
    "  twofold init my.textproto                          a first spec to edit\n"
    "  twofold doctor                                     is this machine fit for it?\n"
    "  twofold spec parallel                              what can a spec say?\n"
    "  twofold list models                                what can be trained\n"
    "  twofold run SPEC --check                           is this spec valid?\n"
    "  twofold calibrate                                  what do kernels and links of this machine cost?\n"
    "  twofold memory SPEC                                how much memory will it take, and for what?\n"
    "  twofold run SPEC --fabric=simulated                predict memory, communication and step time\n"
    "  twofold predict SPEC --vary=parallel.tp=1,2,4      predict variants, side by side\n"
    "  twofold sweep SPEC --vary=parallel.dp=1,2,4        how far does it scale, predicted and measured?\n"
    "  twofold plan --model=M --cluster=C --nodes=N ...   which layout is the fastest that fits?\n"
    "  twofold run SPEC --fabric=in_memory                measure them\n"
    "  twofold launch --ranks=2 -- run SPEC               the same with one process per rank, by MPI\n"
    "  twofold compare DIR_PREDICTED DIR_MEASURED         how good was the prediction?\n"
    "  twofold import TRACE... --out=DIR                  PyTorch's traces as a measurement, to compare with\n"
    "  twofold replay DIR --cluster=C                     a job's execution traces (Chakra), on another network\n"
    "  twofold bench all_reduce                           how fast is communication? (nccl-tests' table)\n"
    "  twofold topology show dgx-h100                     draw a cluster, and print its figures\n"
    "  twofold schedule --out=schedules.svg               draw pipeline schedules: what each stage does when\n"
    "  twofold storm SPEC --schedules=1000                disasters by seed: does training survive them?\n"
    "  twofold report DIR                                 look at a run: time line, memory, errors\n"
    "  twofold desk                                       look at all runs, and ask what if, in a browser\n"
    "\n`twofold COMMAND --help` has examples of each command.\n"
    "Results go to stdout; messages and progress go to stderr.\n"
    "Exit status: 0 fine; 1 a failure at run time; 2 wrong input; 3 a simulation predicts out-of-memory or deadlock.";

// Whether the reader of stdout has closed its end. After a failed write, stdout itself does not tell the reason.
bool ReaderHasGone() {
  pollfd out = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// Results that did not reach stdout are a failure, even if everything else succeeded, unless the reader has closed its
// pipe.
int AfterOutput(int exit_status) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_status;
  const int why = errno;
  if (why == EPIPE || ReaderHasGone()) return exit_status;
  twofold::LogError("stdout: cannot be written", why == 0 ? "" : ": ", why == 0 ? "" : std::strerror(why));
  return exit_status == twofold::kExitFine ? twofold::kExitFailed : exit_status;
}

// What completion offers, by the name of a value.
void OfferNames(twofold::CommandLine& line) {
  using Names = std::vector<std::string>;
  line.Offer("FABRIC", [] {
    Names names;
    for (const twofold::Backend& backend : twofold::Backends()) names.emplace_back(backend.name);
    return names;
  });
  line.Offer("CLUSTER", [] {
    Names names;
    for (const twofold::ClusterInfo& cluster : twofold::ListClusters()) names.push_back(cluster.name);
    return names;
  });
  line.Offer("MODEL", [] {
    Names names;
    for (const twofold::ModelPreset& model : twofold::ModelPresets()) names.emplace_back(model.name);
    return names;
  });
  line.Offer("FRAMEWORK", [] {
    Names names;
    for (const twofold::FrameworkInfo& framework : twofold::ListFrameworks()) names.push_back(framework.name);
    return names;
  });
}

// What others call commands.
void AnswerOtherWords(twofold::CommandLine& line) {
  const auto means = [](const char* word, const char* use) {
    return twofold::StrCat("unknown command \"", word, "\"; use `", use, "`; see twofold --help");
  };
  line.Answer("version", means("version", "twofold --version"));
  line.Answer("train", means("train", "twofold run SPEC"));
  line.Answer("simulate", means("simulate", "twofold run SPEC --fabric=simulated"));
  line.Answer("benchmark", means("benchmark", "twofold bench OPERATION"));
  line.Answer("validate", means("validate", "twofold run SPEC --check"));
  line.Answer("check", means("check", "twofold run SPEC --check"));
}

// In the order in which --help lists them.
void AddCommands(const twofold::Command& program, int& exit_status) {
  program.Group("Predict and measure a spec");
  twofold::AddRunCommand(program, exit_status);
  twofold::AddPredictCommand(program, exit_status);
  twofold::AddMemoryCommand(program, exit_status);
  twofold::AddSweepCommand(program, exit_status);
  twofold::AddPlanCommand(program, exit_status);
  program.Group("Measure this machine, start ranks");
  twofold::AddCalibrateCommand(program, exit_status);
  twofold::AddLaunchCommand(program, exit_status);
  twofold::AddBenchCommand(program, exit_status);
  program.Group("Look at results");
  twofold::AddCompareCommand(program, exit_status);
  twofold::AddImportCommand(program, exit_status);
  twofold::AddReportCommand(program, exit_status);
  twofold::AddDeskCommand(program, exit_status);
  program.Group("Clusters, schedules, disasters");
  twofold::AddTopologyCommand(program, exit_status);
  twofold::AddReplayCommand(program, exit_status);
  twofold::AddScheduleCommand(program, exit_status);
  twofold::AddStormCommand(program, exit_status);
  program.Group("Find out");
  twofold::AddInitCommand(program, exit_status);
  twofold::AddSpecCommand(program, exit_status);
  twofold::AddDoctorCommand(program, exit_status);
  twofold::AddQuickstartCommand(program, exit_status);
  twofold::AddListCommand(program, exit_status);
}

}  // namespace

int main(int argc, char** argv) {
#ifdef TWOFOLD_HAVE_MIMALLOC
  // Else a large simulation spends up to half of its time in page faults. MIMALLOC_LARGE_OS_PAGES=0 forbids it.
  if (twofold::host::MayUseLargePages()) mi_option_set_enabled_default(mi_option_large_os_pages, true);
#endif
  twofold::LogToStderr();
  // a write beyond the user's file size limit then fails with an error that names the file
  std::signal(SIGXFSZ, SIG_IGN);
  if (const absl::Status status = twofold::host::CheckCpuLevel(); !status.ok()) {
    twofold::LogError(status.message());
    return twofold::kExitWrongInput;
  }
  twofold::CommandLine line(
      "Twofold runs distributed training twice, first simulated, then real, with the same strategy code.", "twofold",
      twofold::VersionText);
  const twofold::Command program = line.root();
  program.RequireCommand();
  int exit_status = twofold::kExitFine;
  OfferNames(line);
  AddCommands(program, exit_status);
  AnswerOtherWords(line);
  twofold::AddHelpCommands(line, twofold::VersionName(), exit_status);
  program.Footer(kTour);  // last: otherwise the commands would inherit it
  try {
    if (const absl::Status parsed = line.Parse(argc, argv); !parsed.ok()) {
      twofold::LogError(parsed.message());
      return twofold::kExitWrongInput;
    }
  } catch (const std::exception& error) {
    twofold::LogError(error.what());
    return twofold::kExitFailed;
  }
  return AfterOutput(exit_status);
}
