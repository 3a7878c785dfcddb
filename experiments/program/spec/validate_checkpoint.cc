#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"

namespace twofold {

namespace {

namespace fs = std::filesystem;

// Why nothing can be written below `path`, which is a folder or does not exist yet, as far as can be told without
// creating it. "": no reason found.
std::string WhyNotWritten(const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error).lexically_normal();
  const auto there = [&] { return fs::exists(fs::symlink_status(at, error)); };
  const std::string_view what = there() ? "cannot be written to: " : "cannot be created: ";
  while (!there() && at != at.parent_path()) at = at.parent_path();
  if (!fs::is_directory(at, error)) return StrCat(what, at.string(), " is not a folder");
  return access(at.c_str(), W_OK | X_OK) == 0 ? "" : StrCat(what, at.string(), ": ", std::strerror(errno));
}

void CheckStorage(const spec::Spec& spec, Problems& problems) {
  constexpr char kPath[] = "fabric.simulated.storage";
  if (!spec.train().has_checkpoint() && !spec.train().has_resume()) {
    return problems.Add(
        kPath, "has no effect without train.checkpoint or train.resume; leave it out, or add train { checkpoint {} }");
  }
  const spec::Storage& storage = spec.fabric().simulated().storage();
  problems.Above(StrCat(kPath, ".write_gbytes_per_second"), storage.write_gbytes_per_second(), 0);
  problems.Above(StrCat(kPath, ".read_gbytes_per_second"), storage.read_gbytes_per_second(), 0);
}

}  // namespace

void CheckCheckpoint(const spec::Spec& spec, Problems& problems) {
  constexpr int64_t kMany = int64_t{1} << 31;
  const spec::Train& train = spec.train();
  std::error_code error;
  if (spec.fabric().simulated().has_storage()) CheckStorage(spec, problems);
  if (train.has_checkpoint()) {
    const spec::Checkpoint& c = train.checkpoint();
    if (c.has_every_steps()) problems.Whole("train.checkpoint.every_steps", c.every_steps(), 1, kMany);
    problems.Whole("train.checkpoint.keep_last", c.keep_last(), 0, kMany);
    if (c.has_path() && c.path().empty()) {
      problems.Add("train.checkpoint.path",
                   "is empty; give a folder, or leave it out to use \"checkpoints\" in the run's folder");
    } else if (std::filesystem::exists(c.path(), error) && !std::filesystem::is_directory(c.path(), error)) {
      problems.Add("train.checkpoint.path", "\"", c.path(),
                   "\" is not a folder; give a folder, or a path at which one can be created");
    } else if (const std::string why = c.has_path() && WritesCheckpoints(spec) ? WhyNotWritten(c.path()) : "";
               !why.empty()) {
      problems.Add("train.checkpoint.path", "\"", c.path(), "\" ", why, "; give a folder that this user may write to");
    }
  }
  if (train.has_resume() && !std::filesystem::is_directory(train.resume(), error)) {
    problems.Add("train.resume", "\"", train.resume(),
                 "\" is not a folder; give a checkpoint, or a folder of checkpoints");
  }
}

}  // namespace twofold
