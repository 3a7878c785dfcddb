// What a run has announced as saved must be there.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "core/base/strings.h"
#include "experiments/program/storm/checkpoints.h"
#include "experiments/program/storm/rules.h"

namespace twofold::storm {
namespace {

// The file of this checkpoint that disasters have damaged; empty: none, or so often that it may be whole again.
std::string DamagedFileOf(const Course& course, const std::string& checkpoint) {
  for (const auto& [file, bits] : course.damaged) {
    if (absl::StartsWith(file, checkpoint + "/") && bits == 1) return file;
  }
  return "";
}

bool IsDamaged(const Course& course, const std::string& checkpoint) {
  return std::any_of(course.damaged.begin(), course.damaged.end(),
                     [&](const auto& file) { return absl::StartsWith(file.first, checkpoint + "/"); });
}

void JudgeOne(const Course& course, const std::string& path, Findings& findings) {
  const absl::Status read = ReadAll(path);
  if (!IsDamaged(course, path)) {
    if (!read.ok())
      findings.Add("checkpoints", StrCat(path, " was announced, but cannot be loaded: ", std::string(read.message())));
    return;
  }
  const std::string file = DamagedFileOf(course, path);
  std::error_code none;
  if (file.empty() || !std::filesystem::exists(file, none)) return;
  if (read.ok())
    findings.Add("checkpoints", StrCat("a bit of ", file, " has changed, and nobody noticed"));
  else if (!absl::StrContains(read.message(), path))
    findings.Add("checkpoints", StrCat("a bit of ", file, " has changed, but the error does not name the checkpoint: ",
                                       std::string(read.message())));
}

}  // namespace

std::string ReadableCheckpoint(const spec::Spec& spec, int64_t sequence_before) {
  for (const checkpoint::Found& found : CheckpointsOf(spec.train().checkpoint().path(), sequence_before)) {
    if (ReadAll(found.path).ok()) return found.path;
  }
  return "";
}

void JudgeCheckpoints(const Course& course, Findings& findings) {
  if (!course.spec.train().has_checkpoint()) return;
  std::set<std::string> announced;  // names begin with a sequence number, so they are in order
  for (const auto& [member, record] : course.evidence.records) {
    for (const report::Checkpoint& saved : record.checkpoints()) announced.insert(saved.path());
  }
  if (announced.empty()) return;
  findings.verdict().mutable_happened()->insert({"checkpoints announced", static_cast<int64_t>(announced.size())});
  for (const std::string& path : announced) {
    std::error_code none;
    const bool is_last = path == *announced.rbegin();
    if (!std::filesystem::exists(path, none)) {
      if (is_last) findings.Add("checkpoints", StrCat(path, " was announced, is the last one, and is not there"));
      continue;  // newer ones have replaced it
    }
    JudgeOne(course, path, findings);
  }
}

}  // namespace twofold::storm
