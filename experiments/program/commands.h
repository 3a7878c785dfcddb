// The commands of the program. Each Add...Command adds a command to `program`. When the user chose it, it runs and
// leaves the program's exit status in `exit_status`, which must outlive the parse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/cli/command_line.h"

namespace twofold {

// Exit statuses of the program.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;            // something went wrong while ranks ran
inline constexpr int kExitWrongInput = 2;        // spec, flags or files
inline constexpr int kExitPredictedFailure = 3;  // a simulated run predicts out-of-memory or deadlock

void AddQuickstartCommand(const Command& program, int& exit_status);
void AddRunCommand(const Command& program, int& exit_status);
// A command line that begins with the word run, and what it asks for.
struct RunWords {
  std::string file, out;  // the spec; the folder of the report
  std::vector<std::string> sets;
  spec::Spec spec;  // resolved, for `fabric`
};
// Reads it before anything is started. Returns its errors, and those of the spec. Nullopt if it trains nothing (--help,
// --check).
absl::StatusOr<std::optional<RunWords>> ReadRunCommand(const std::vector<std::string>& words,
                                                       const std::string& fabric);
void AddDeskCommand(const Command& program, int& exit_status);
void AddCompareCommand(const Command& program, int& exit_status);
void AddImportCommand(const Command& program, int& exit_status);
void AddListCommand(const Command& program, int& exit_status);
void AddPredictCommand(const Command& program, int& exit_status);
void AddPlanCommand(const Command& program, int& exit_status);
void AddMemoryCommand(const Command& program, int& exit_status);
void AddLaunchCommand(const Command& program, int& exit_status);
void AddTopologyCommand(const Command& program, int& exit_status);
void AddStormCommand(const Command& program, int& exit_status);
void AddSweepCommand(const Command& program, int& exit_status);
void AddReplayCommand(const Command& program, int& exit_status);
void AddDoctorCommand(const Command& program, int& exit_status);
void AddInitCommand(const Command& program, int& exit_status);
void AddSpecCommand(const Command& program, int& exit_status);
void AddScheduleCommand(const Command& program, int& exit_status);
// help, completion and man. `source`: the program and its version, for man pages. `line` must outlive the parse.
void AddHelpCommands(CommandLine& line, const std::string& source, int& exit_status);

}  // namespace twofold
