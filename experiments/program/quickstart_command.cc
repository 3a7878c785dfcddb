// twofold quickstart: from an installed program to a prediction beside its measurement.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/quickstart_spec.h"
#include "experiments/program/report/files.h"

namespace twofold {
namespace {

struct QuickstartOptions {
  std::string out = "runs", profile;
  int steps = 60;
};

struct Step {
  std::string title;
  std::vector<std::string> words;  // of this program
  std::string into = "";           // the file that its results go to; empty: stdout
};

// The most ranks, a core each, that the global batch of 16 can be shared among.
int RanksHere() {
  int ranks = 1;
  while (ranks < 16 && 2 * ranks <= static_cast<int>(std::thread::hardware_concurrency())) ranks *= 2;
  return ranks;
}

bool OnPath(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    if (access(StrCat(folder, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Why ranks cannot be processes here; empty if they can.
std::string WhyNoMpi() {
  const Backend& mpi = *FindBackend("mpi");
  if (std::string why_not = mpi.why_not(); !why_not.empty()) return why_not;
  const std::string launcher = mpi.launcher(1).front();
  return OnPath(launcher) ? "" : StrCat(launcher, " is not on the PATH");
}

std::vector<Step> Steps(const QuickstartOptions& o) {
  const int ranks = RanksHere();
  const std::string spec = StrCat(o.out, "/quickstart.textproto"), predicted = StrCat(o.out, "/quickstart-predicted"),
                    measured = StrCat(o.out, "/quickstart-measured"), by_mpi = measured + "-mpi";
  const std::string profile = o.profile.empty() ? StrCat(o.out, "/this-machine.profile.textproto") : o.profile;
  const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",
                                      spec,
                                      StrCat("--out=", out),
                                      StrCat("--set=train.steps=", o.steps),
                                      StrCat("--set=train.schedule.warmup_steps=", o.steps / 6),
                                      StrCat("--set=parallel.dp=", ranks),
                                      StrCat("--set=train.micro_batch=", ranks > 2 ? 16 / ranks : 8)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::vector<Step> steps;
  if (o.profile.empty()) {
    steps.push_back({"calibrate: measure this machine's kernels and links (about a minute)",
                     {"calibrate", StrCat("--out=", profile)},
                     StrCat(o.out, "/calibration.txt")});  // a line for each kernel
  }
  steps.push_back({StrCat("predict: ", ranks, " ranks, simulated"),
                   run(predicted, {"--fabric=simulated", StrCat("--set=fabric.simulated.profile=", profile)})});
  steps.push_back({"measure: the same spec, for real", run(measured, {"--fabric=in_memory"})});
  std::vector<std::string> compare = {"compare", predicted, measured};
  if (const std::string why_not = WhyNoMpi(); why_not.empty()) {
    std::vector<std::string> words = run(by_mpi, {});
    words.insert(words.begin(), {"launch", StrCat("--ranks=", ranks), "--fabric=mpi", "--"});
    steps.push_back({StrCat("measure again: ", ranks, " processes under mpirun"), std::move(words)});
    compare.push_back(by_mpi);
  } else {
    LogInfo("not measured on processes: fabric mpi: ", why_not);
  }
  steps.push_back({"pictures", {"report", predicted, measured}});
  steps.push_back({"compare", std::move(compare)});
  return steps;
}

// Makes the file this process's stdout.
bool PrintInto(const std::string& file) {
  const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return opened >= 0 && dup2(opened, STDOUT_FILENO) >= 0;
}

// Runs a command line of this program and returns its exit status. What ends this process ends that one.
int RunSelf(const Step& step) {
  const std::vector<std::string>& words = step.words;
  std::vector<char*> argv = {const_cast<char*>("twofold")};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (!step.into.empty() && !PrintInto(step.into)) {
      LogError(step.into, ": cannot be written: ", std::strerror(errno));
      _exit(kExitFailed);
    }
    execv("/proc/self/exe", argv.data());
    LogError("/proc/self/exe: cannot be started: ", std::strerror(errno));
    _exit(kExitFailed);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) {
    LogError("twofold ", words[0], ": cannot be started: ", std::strerror(errno));
    return kExitFailed;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
}

// Prints each command, so that a user can repeat it, and runs it in a process of its own.
int RunSteps(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    std::printf("\n== %s\ntwofold %s%s\n", step.title.c_str(), absl::StrJoin(step.words, " ").c_str(),
                step.into.empty() ? "" : StrCat(" > ", step.into).c_str());
    std::fflush(stdout);
    if (const int status = RunSelf(step); status != kExitFine) return status;
  }
  return kExitFine;
}

absl::Status Check(const QuickstartOptions& o) {
  if (o.steps < 1) return InvalidArgument("--steps must be at least 1 (got ", o.steps, ")");
  if (!o.profile.empty() && !std::filesystem::exists(o.profile))
    return InvalidArgument("--profile=", o.profile, ": there is no such file; `twofold calibrate` writes one");
  if (const std::string why_not = FindBackend("simulated")->why_not(); !why_not.empty())
    return InvalidArgument("quickstart predicts, and this cannot: fabric simulated: ", why_not);
  return MakeOutFolder("--out", o.out);
}

int Quickstart(const QuickstartOptions& o) {
  if (const absl::Status s = Check(o); !s.ok()) {
    LogError(s.message());
    return kExitWrongInput;
  }
  if (const absl::Status s = WriteFiles(o.out, {{"quickstart.textproto", std::string(kQuickstartSpec)}}); !s.ok()) {
    LogError(s.message());
    return kExitFailed;
  }
  return RunSteps(Steps(o));
}

}  // namespace

void AddQuickstartCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<QuickstartOptions>();
  const Command command =
      program.AddCommand("quickstart", "calibrates, predicts a small GPT, trains it, draws and compares");
  command.AddOption("--out=DIR", options->out, "folder for the spec, the profile and the runs; default: runs");
  command.AddOption("--profile=FILE", options->profile,
                    "use this profile of `twofold calibrate` instead of measuring this machine again");
  command.AddOption("--steps=N", options->steps, "steps of the training").ShowDefault();
  command.Footer(
      "A GPT of 3 million parameters trains on the licence texts of the system, on one rank per core: on threads, and\n"
      "again on processes that communicate by MPI, where there is mpirun. Each command that runs is printed first.\n"
      "The prediction knows of this machine what `twofold calibrate` measures: kernels, links and small training "
      "jobs,\n"
      "none of which is this one; calibration.txt beside the profile has its tables. It takes about two minutes on\n"
      "two cores.\n"
      "Exit status: that of the first command that fails, or 0; 2 wrong input.\n"
      "\nExamples:\n  twofold quickstart\n  twofold quickstart --profile=runs/this-machine.profile.textproto");
  command.OnParsed([options, &exit_status] { exit_status = Quickstart(*options); });
}

}  // namespace twofold
