// The commands of the program. Each Add...Command gives `app` a subcommand; when the user chose it, CLI11
// calls it back and it leaves the program's exit status in `exit_status`, which must outlive the parse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace twofold {

// What the program's exit status says.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;            // something went wrong while ranks ran
inline constexpr int kExitWrongInput = 2;        // spec, flags or files
inline constexpr int kExitPredictedFailure = 3;  // a simulated run predicts out-of-memory or deadlock

void AddRunCommand(CLI::App& app, int& exit_status);
// What is wrong with a command line that begins with the word run, and with its spec, before anything is started.
absl::Status CheckRunCommand(const std::vector<std::string>& words, const std::string& fabric);
void AddCompareCommand(CLI::App& app, int& exit_status);
void AddListCommand(CLI::App& app, int& exit_status);
void AddMemoryCommand(CLI::App& app, int& exit_status);
void AddLaunchCommand(CLI::App& app, int& exit_status);
void AddTopologyCommand(CLI::App& app, int& exit_status);
void AddScheduleCommand(CLI::App& app, int& exit_status);

}  // namespace twofold
