// twofold desk: runs of a folder and what-if questions, in a browser.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/desk/desk.h"

namespace twofold {
namespace {

// SIGINT and SIGTERM end the desk. They are blocked before it starts its threads, so that this one gets them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void Await() const {
    int signal = 0;
    sigwait(&set_, &signal);
  }

 private:
  sigset_t set_;
};

int Serve(const desk::DeskOptions& options) {
  const EndSignals signals;
  const auto desk = desk::Desk::Open(options);
  if (!desk.ok()) {
    LogError(desk.status().message());
    return desk.status().code() == absl::StatusCode::kInvalidArgument ? kExitWrongInput : kExitFailed;
  }
  std::printf("%s\n", (*desk)->address().c_str());
  std::fflush(stdout);
  LogInfo("open this address in a browser of this machine; it shows ", options.folder, " until ctrl-c");
  signals.Await();
  return kExitFine;
}

}  // namespace

void AddDeskCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<desk::DeskOptions>();
  options->program = "/proc/self/exe";
  const Command command =
      program.AddCommand("desk", "shows the runs of a folder in a browser, and answers what-if questions");
  command.AddOption("DIR", options->folder, "a folder in which runs, plans and sweeps are").ShowDefault();
  command.AddOption("--port=PORT", options->port, "the port of 127.0.0.1 to listen on; 0: any that is free")
      .ShowDefault();
  command.Footer(
      "Prints an address to open in a browser of this machine. Whoever knows it can read the runs, so it has a token; "
      "other "
      "machines cannot\n"
      "reach it. To use it from elsewhere, forward the port: ssh -L 8080:127.0.0.1:8080 HOST, with --port=8080.\n"
      "Runs are listed, filtered, opened as `twofold report` draws them, and held side by side. What if: choose a "
      "model or a "
      "run's spec, move\n"
      "sliders for GPUs, tp, pp, cp, micro-batch and bandwidth, and read the predicted time and memory, with the spec "
      "to "
      "copy.\n"
      "Exit status: 0 ended by ctrl-c or SIGTERM; 1 the port is taken; 2 wrong input.\n"
      "\nExamples:\n"
      "  twofold desk\n"
      "  twofold desk runs/lab --port=8080");
  command.OnParsed([options, &exit_status] { exit_status = Serve(*options); });
}

}  // namespace twofold
