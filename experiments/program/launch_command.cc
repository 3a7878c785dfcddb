// twofold launch --ranks=N --fabric=F -- run SPEC ...
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/launch.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "experiments/program/commands.h"
#include "spdlog/spdlog.h"

namespace twofold {
namespace {

struct Options {
  int ranks = 0;
  std::string fabric = "mpi";
  std::vector<std::string> command;
  bool print = false;
};

std::string LaunchedFabrics() {
  std::vector<std::string> names;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty() && !b.launcher(1).empty()) names.emplace_back(b.name);
  }
  return names.empty() ? "none in this build" : absl::StrJoin(names, ", ");
}

absl::Status Check(const Options& o) {
  if (o.ranks < 1) return absl::InvalidArgumentError(StrCat("--ranks=", o.ranks, ": 1 or more is right"));
  if (LaunchedAs().launched) {
    return absl::InvalidArgumentError("launch: this process was itself started by a launcher; start ranks from a plain shell");
  }
  const Backend* backend = FindBackend(o.fabric);
  if (backend == nullptr) {
    return absl::InvalidArgumentError(
        StrCat("--fabric=", o.fabric, ": no such fabric; those whose ranks are processes: ", LaunchedFabrics()));
  }
  if (const std::string reason = backend->why_not(); !reason.empty()) {
    return absl::InvalidArgumentError(StrCat("--fabric=", o.fabric, ": ", reason));
  }
  if (backend->launcher(o.ranks).empty()) {
    return absl::InvalidArgumentError(StrCat("--fabric=", o.fabric, ": its ranks are not processes: call `twofold ",
                                             absl::StrJoin(o.command, " "), "` without launch; fabrics to launch: ",
                                             LaunchedFabrics()));
  }
  if (o.command.empty()) return absl::InvalidArgumentError("launch: nothing to run; give a command after --, such as `-- run SPEC`");
  return absl::OkStatus();
}

// The launcher's words, this very program, and the command with its fabric.
std::vector<std::string> Words(const Options& o) {
  std::vector<std::string> words = FindBackend(o.fabric)->launcher(o.ranks);
  std::error_code error;
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(), o.command.begin(), o.command.end());
  const bool says = std::any_of(o.command.begin(), o.command.end(), [](const std::string& w) { return w.starts_with("--fabric"); });
  if (!says) words.push_back(StrCat("--fabric=", o.fabric));
  return words;
}

// Returns only where the launcher cannot be started: its signals and its exit status are then the caller's.
int RunLaunch(const Options& o) {
  if (const absl::Status s = Check(o); !s.ok()) {
    spdlog::error("{}", std::string(s.message()));
    return kExitWrongInput;
  }
  std::vector<std::string> words = Words(o);
  if (o.print) {
    std::printf("%s\n", absl::StrJoin(words, " ").c_str());
    return kExitFine;
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execvp(argv[0], argv.data());
  spdlog::error("{}: cannot be started: {}; is it installed and on the PATH?", words[0], std::strerror(errno));
  return kExitFailed;
}

}  // namespace

void AddLaunchCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("launch", "starts ranks that are processes, on this machine");
  auto options = std::make_shared<Options>();
  command->add_option("--ranks", options->ranks, "how many processes, one a rank")->required();
  command->add_option("--fabric", options->fabric, "the fabric that they communicate by")->capture_default_str();
  command->add_flag("--print", options->print, "only print the command line that would be run");
  command->add_option("COMMAND", options->command, "after --: a command of this program with its arguments");
  command->footer(
      "A wrapper of the fabric's own launcher. On a cluster call that one yourself, with its host list:\n"
      "  mpirun -n 16 --hostfile hosts twofold run SPEC --fabric=mpi\n"
      "  srun -n 16 --mpi=pmix twofold run SPEC --fabric=mpi\n"
      "\nExamples:\n"
      "  twofold launch --ranks=4 --fabric=mpi -- run my.textproto --set=parallel.dp=4\n"
      "  twofold launch --ranks=2 -- calibrate\n"
      "  twofold launch --ranks=2 -- bench all_reduce -e 64M");
  command->callback([options, &exit_status] { exit_status = RunLaunch(*options); });
}

}  // namespace twofold
