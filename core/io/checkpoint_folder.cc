#include "core/io/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPartial = ".partial", kStep = "-step-";

std::optional<int64_t> WholeNumber(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  constexpr int64_t kMost = int64_t{1} << 62;  // the limit of manifests; the next number still fits
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value >= kMost) return std::nullopt;
  return value;
}

// Parses "000003-step-60".
std::optional<Found> FromName(const std::string& name) {
  const size_t at = name.find(kStep);
  if (at == std::string::npos) return std::nullopt;
  const auto sequence = WholeNumber(std::string_view(name).substr(0, at));
  const auto step = WholeNumber(std::string_view(name).substr(at + kStep.size()));
  if (!sequence || !step) return std::nullopt;
  return Found{*sequence, *step, ""};
}

bool IsPartial(const std::string& name) {
  return absl::EndsWith(name, absl::string_view(kPartial.data(), kPartial.size()));
}

absl::Status Failed(const std::string& path, std::string_view what, const std::error_code& error) {
  return Unavailable(path, ": cannot be ", what, ": ", error.message());
}

absl::Status FailedUnless0(int error, const std::string& path, std::string_view what) {
  return error == 0 ? absl::OkStatus() : Failed(path, what, std::error_code(error, std::generic_category()));
}

absl::Status Rename(Disk& disk, const std::string& from, const std::string& to) {
  return FailedUnless0(disk.Rename(from, to), from, StrCat("renamed to ", to));
}

absl::Status Remove(Disk& disk, const std::string& path) { return FailedUnless0(disk.Remove(path), path, "deleted"); }

absl::StatusOr<std::vector<std::string>> Names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory) return Failed(folder, "listed", error);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveLeftovers(Disk& disk, const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = Names(folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!IsPartial(name) || !FromName(name.substr(0, name.size() - kPartial.size()))) continue;
    if (absl::Status status = Remove(disk, StrCat(folder, "/", name)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Folders named like checkpoints, latest first.
absl::StatusOr<std::vector<Found>> Listed(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = Names(folder);
  if (!names.ok()) return names.status();
  std::vector<Found> found;
  for (const std::string& name : *names) {
    std::optional<Found> one = FromName(name);
    if (!one) continue;
    one->path = StrCat(folder, "/", name);
    found.push_back(*std::move(one));
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.sequence > b.sequence; });
  return found;
}

}  // namespace

std::vector<Found> List(const std::string& folder) { return Listed(folder).value_or(std::vector<Found>()); }

Begun Named(const std::string& folder, int64_t sequence, int64_t step) {
  const std::string path = absl::StrFormat("%s/%06d-step-%d", folder, sequence, step);
  return {sequence, StrCat(path, kPartial), path};
}

absl::StatusOr<Claim> Claim::Make(const std::string& folder, Disk& disk) {
  std::error_code error;
  std::vector<std::string> above;  // parents of the folders that do not exist yet
  for (fs::path at = fs::absolute(folder, error).lexically_normal();
       !error && !fs::exists(at, error) && at != at.parent_path(); at = at.parent_path()) {
    above.push_back(at.parent_path().string());
  }
  if (absl::Status made = FailedUnless0(disk.MakeFolder(folder), folder, "created"); !made.ok()) return made;
  for (const std::string& path : above) {  // else a power failure could remove the folder with all its contents
    if (absl::Status status = SyncFolder(path, disk); !status.ok()) return status;
  }
  Claim claim(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (claim.folder_ < 0) return Failed(folder, "opened", std::error_code(errno, std::generic_category()));
  // Other errors mean that the file system has no locks; they are ignored.
  if (flock(claim.folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return FailedPrecondition(
        folder,
        ": another run that is still running saves to this folder; set train.checkpoint.path to another folder");
  }
  return claim;
}

Claim::~Claim() {
  if (folder_ >= 0) close(folder_);
}

absl::StatusOr<Begun> Begin(const std::string& folder, int64_t step, Disk& disk) {
  if (absl::Status made = FailedUnless0(disk.MakeFolder(folder), folder, "created"); !made.ok()) return made;
  if (absl::Status status = RemoveLeftovers(disk, folder); !status.ok()) return status;
  const absl::StatusOr<std::vector<Found>> there = Listed(folder);
  if (!there.ok()) return there.status();
  Begun begun = Named(folder, there->empty() ? 1 : there->front().sequence + 1, step);
  if (absl::Status made = FailedUnless0(disk.MakeFolder(begun.partial), begun.partial, "created"); !made.ok())
    return made;
  return begun;
}

absl::Status Commit(const std::string& folder, const Begun& begun, const Manifest& manifest, int64_t keep_last,
                    Disk& disk) {
  if (absl::Status status = WriteSmallFile(begun.partial, kManifestFile, ManifestText(manifest), disk); !status.ok())
    return status;
  if (absl::Status status = Rename(disk, begun.partial, begun.final); !status.ok()) return status;
  if (absl::Status status = SyncFolder(folder, disk); !status.ok()) return status;
  if (keep_last == 0) return absl::OkStatus();
  const absl::StatusOr<std::vector<Found>> there = Listed(folder);
  if (!there.ok()) return there.status();
  for (size_t i = static_cast<size_t>(keep_last); i < there->size(); ++i) {  // renamed before anything in it is deleted
    const std::string going = StrCat((*there)[i].path, kPartial);
    if (absl::Status status = Rename(disk, (*there)[i].path, going); !status.ok()) return status;
    if (absl::Status status = Remove(disk, going); !status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Opened> OpenThis(Disk& disk, const std::string& path) {
  absl::StatusOr<std::string> text = ReadManifestText(path, disk);
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = ParseManifest(StrCat(path, "/", kManifestFile), *text);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status status = CheckFiles(path, manifest->contents, disk); !status.ok()) return status;
  return Opened{path, *std::move(manifest), *std::move(text), {}, {}};
}

}  // namespace

absl::StatusOr<Opened> Open(const std::string& path, Disk& disk) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return InvalidArgument(path, ": is not a folder; give a checkpoint or a folder of checkpoints");
  }
  if (fs::exists(StrCat(path, "/", kManifestFile), error)) return OpenThis(disk, path);
  std::vector<std::string> passed_over;
  const absl::StatusOr<std::vector<Found>> there = Listed(path);
  if (!there.ok()) return there.status();
  for (const Found& found : *there) {
    absl::StatusOr<Opened> opened = OpenThis(disk, found.path);
    if (opened.ok()) {
      opened->passed_over = std::move(passed_over);
      return opened;
    }
    passed_over.push_back(std::string(opened.status().message()));
  }
  const std::string bad = absl::StrJoin(passed_over, "; ");
  return InvalidArgument(path, ": has no ", bad.empty() ? "checkpoint" : StrCat("good checkpoint (", bad, ")"),
                         "; give a checkpoint or a folder of checkpoints");
}

}  // namespace twofold::checkpoint
