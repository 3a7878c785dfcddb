// twofold doctor: whether this machine and environment are fit for runs.
#include <cstdio>
#include <memory>

#include "experiments/program/cli/output.h"
#include "experiments/program/cli/wrap.h"
#include "experiments/program/commands.h"
#include "experiments/program/doctor/finding.h"
#include "experiments/program/doctor/machine.h"
#include "experiments/program/doctor/parts.h"
#include "experiments/program/doctor/run.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

int Doctor(bool json) {
  doctor::Findings findings = doctor::AboutParts();
  for (const auto& more : {doctor::AboutMachine(), doctor::AboutRuns()})
    findings.insert(findings.end(), more.begin(), more.end());
  const std::string text = json ? JsonText(doctor::FindingsJson(findings))
                                : doctor::FindingsText(findings, TerminalWidth(), ColourOnStdout());
  std::printf("%s", text.c_str());
  return doctor::Faults(findings) > 0 ? kExitFailed : kExitFine;
}

}  // namespace

void AddDoctorCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("doctor", "looks at this machine, build and environment, and says what to mend");
  auto json = std::make_shared<bool>(false);
  command.AddFlag("--json", *json, "print JSON: {findings: [{kind, name, text, remedy}], notes, faults}");
  command.Footer(
      "One line for each thing that it looks at: ok, note (worth knowing, with a remedy where there is one) or fault "
      "(a run may fail by it, or "
      "give wrong figures).\n"
      "It looks at libraries, fabrics, MPI's launcher, GPUs, processor, memory, limits, clock, loopback, folders, the "
      "profile of this\n"
      "machine's kernels, and the variables of launchers. It starts one process by mpirun and changes nothing.\n"
      "Exit status: 0 no fault; 1 a fault; 2 wrong input.\n"
      "\nExamples:\n"
      "  twofold doctor\n"
      "  srun --nodes=2 twofold doctor --json");
  command.OnParsed([json, &exit_status] { exit_status = Doctor(*json); });
}

}  // namespace twofold
