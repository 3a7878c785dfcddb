// The `twofold` program.
#include <memory>

#include "core/base/errors.h"
#include "experiments/bench/command.h"
#include "experiments/calibrate/command.h"
#include "experiments/pictures/command.h"
#include "experiments/program/commands.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace {

constexpr const char* kTour =
    "A small tour:\n"
    "  twofold list models                                what can be trained\n"
    "  twofold run SPEC --check                           is this spec right?\n"
    "  twofold calibrate                                  what do kernels and links of this machine cost?\n"
    "  twofold memory SPEC                                what memory will it take, and for what?\n"
    "  twofold run SPEC --fabric=simulated                predict memory, communication and step time\n"
    "  twofold run SPEC --fabric=in_memory                measure them\n"
    "  twofold launch --ranks=2 -- run SPEC               the same with a process a rank, by MPI\n"
    "  twofold compare DIR_PREDICTED DIR_MEASURED         how good was the prediction?\n"
    "  twofold bench all_reduce                           how fast is communication? (nccl-tests' table)\n"
    "  twofold topology show dgx-h100                     a cluster as a picture, and its figures\n"
    "  twofold schedule --out=schedules.svg               what the stages of a pipeline do, by schedule\n"
    "  twofold report DIR                                 see it: time line, memory, errors\n"
    "\n`twofold COMMAND --help` has examples of each command.\n"
    "Results go to stdout; messages and progress go to stderr.";

// "twofold: error: ..." on stderr, in colour where that is a terminal.
void LogToStderr() {
  auto logger = spdlog::stderr_color_mt("twofold");
  logger->set_pattern("%n: %^%l%$: %v");
  spdlog::set_default_logger(std::move(logger));
}

// A first word that names no command; null when there is none.
const char* UnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return nullptr;
  const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  return app.get_subcommands(named).empty() ? argv[1] : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  LogToStderr();
  CLI::App app("Twofold runs distributed training twice, simulated and real, with the same strategy code.",
               "twofold");
  app.set_version_flag("--version", "twofold " TWOFOLD_VERSION);
  app.require_subcommand(1);
  app.footer(kTour);
  int exit_status = twofold::kExitFine;
  twofold::AddRunCommand(app, exit_status);
  twofold::AddMemoryCommand(app, exit_status);
  twofold::AddCompareCommand(app, exit_status);
  twofold::AddBenchCommand(app, exit_status);
  twofold::AddCalibrateCommand(app, exit_status);
  twofold::AddLaunchCommand(app, exit_status);
  twofold::AddReportCommand(app, exit_status);
  twofold::AddTopologyCommand(app, exit_status);
  twofold::AddScheduleCommand(app, exit_status);
  twofold::AddListCommand(app, exit_status);
  if (const char* word = UnknownCommand(app, argc, argv)) {
    spdlog::error("\"{}\" is no command; use run, memory, launch, compare, bench, calibrate, report, topology, schedule or list (twofold --help)", word);
    return twofold::kExitWrongInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? twofold::kExitFine
                                : twofold::kExitWrongInput;  // --help and --version are fine
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return twofold::kExitFailed;
  }
  return exit_status;
}
