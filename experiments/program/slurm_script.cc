#include "experiments/program/slurm_script.h"

#include <regex>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// As a shell reads it again.
std::string Quoted(const std::string& word) {
  static const std::regex plain("[A-Za-z0-9_@%+=:,./-]+");
  if (std::regex_match(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) StrAppend(&quoted, c == '\'' ? "'\\''" : std::string(1, c));
  return quoted + "'";
}

// Of the job, and of its step: since Slurm 22.05, srun does not take it from sbatch.
std::string Cores(const SlurmJob& job) { return job.cores > 1 ? StrCat(" --cpus-per-task=", job.cores) : ""; }

std::string SrunLine(const SlurmJob& job) {
  std::string line = StrCat("srun --kill-on-bad-exit=1", Cores(job), job.by_mpi ? " --mpi=pmix" : "");
  for (const std::string& word : job.command) StrAppend(&line, " ", Quoted(word));
  return line;
}

}  // namespace

absl::Status CheckSlurmTime(const std::string& time) {
  static const std::regex limit(R"((\d+|\d+:\d{1,2}|\d+:\d{1,2}:\d{1,2}|\d+-\d{1,2}(:\d{1,2}){0,2}))");
  if (std::regex_match(time, limit)) return absl::OkStatus();
  return InvalidArgument("--time=", time,
                         ": is no time limit for sbatch, such as 30 (minutes), 08:00:00 or 2-12 (days and hours)");
}

std::string SlurmScript(const SlurmJob& job) {
  std::string text =
      StrCat("#!/bin/bash\n#SBATCH --nodes=", job.nodes, " --ntasks-per-node=", job.ranks_per_node, Cores(job));
  if (job.gpus) StrAppend(&text, " --gpus-per-node=", job.ranks_per_node);
  if (!job.time.empty()) StrAppend(&text, " --time=", job.time);
  StrAppend(&text, "\n");
  if (job.checkpoints.empty()) return StrCat(text, SrunLine(job), "\n");
  const std::string out = Quoted(job.out), checkpoints = Quoted(job.checkpoints);
  StrAppend(&text, "#SBATCH --requeue --open-mode=append --signal=TERM@180\n");
  StrAppend(&text, "rm -f ", out, "/report.json\n");
  StrAppend(&text, "ls -d ", checkpoints, "/*-step-*[0-9] > /dev/null 2>&1 && resume=--set=train.resume=", checkpoints,
            "\n");
  StrAppend(&text, SrunLine(job), " $resume\nstatus=$?\n");
  StrAppend(&text, R"(grep -qE '"outcome": "INTERRUPTED"|"message": "lost rank' )", out,
            "/report.json && exec scontrol requeue $SLURM_JOB_ID\nexit $status\n");
  return text;
}

}  // namespace twofold
