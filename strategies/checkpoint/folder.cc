#include "strategies/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPartial = ".partial", kStep = "-step-";

std::optional<int64_t> WholeNumber(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

// From "000003-step-60".
std::optional<Found> FromName(const std::string& name) {
  const size_t at = name.find(kStep);
  if (at == std::string::npos) return std::nullopt;
  const auto sequence = WholeNumber(std::string_view(name).substr(0, at));
  const auto step = WholeNumber(std::string_view(name).substr(at + kStep.size()));
  if (!sequence || !step) return std::nullopt;
  return Found{*sequence, *step, ""};
}

bool IsPartial(const std::string& name) { return absl::EndsWith(name, absl::string_view(kPartial.data(), kPartial.size())); }

absl::Status Failed(const std::string& path, std::string_view what, const std::error_code& error) {
  return absl::UnavailableError(StrCat(path, ": cannot be ", what, ": ", error.message()));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? Failed(from, StrCat("renamed to ", to), error) : absl::OkStatus();
}

absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Failed(path, "deleted", error) : absl::OkStatus();
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveLeftovers(const std::string& folder) {
  for (const std::string& name : Names(folder)) {
    if (!IsPartial(name) || !FromName(name.substr(0, name.size() - kPartial.size()))) continue;
    if (absl::Status status = Remove(StrCat(folder, "/", name)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Found> List(const std::string& folder) {
  std::vector<Found> found;
  for (const std::string& name : Names(folder)) {
    std::optional<Found> one = FromName(name);
    if (!one) continue;
    one->path = StrCat(folder, "/", name);
    found.push_back(*std::move(one));
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.sequence > b.sequence; });
  return found;
}

Begun Named(const std::string& folder, int64_t sequence, int64_t step) {
  const std::string path = absl::StrFormat("%s/%06d-step-%d", folder, sequence, step);
  return {sequence, StrCat(path, kPartial), path};
}

absl::StatusOr<Begun> Begin(const std::string& folder, int64_t step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Failed(folder, "made", error);
  if (absl::Status status = RemoveLeftovers(folder); !status.ok()) return status;
  const std::vector<Found> there = List(folder);
  Begun begun = Named(folder, there.empty() ? 1 : there[0].sequence + 1, step);
  fs::create_directory(begun.partial, error);
  if (error) return Failed(begun.partial, "made", error);
  return begun;
}

absl::Status Commit(const std::string& folder, const Begun& begun, const Manifest& manifest, int64_t keep_last) {
  if (absl::Status status = WriteSmallFile(begun.partial, kManifestFile, ManifestText(manifest)); !status.ok()) return status;
  if (absl::Status status = Rename(begun.partial, begun.final); !status.ok()) return status;
  if (absl::Status status = SyncFolder(folder); !status.ok()) return status;
  if (keep_last == 0) return absl::OkStatus();
  const std::vector<Found> there = List(folder);
  for (size_t i = static_cast<size_t>(keep_last); i < there.size(); ++i) {  // a name is taken from it before anything of it goes
    const std::string going = StrCat(there[i].path, kPartial);
    if (absl::Status status = Rename(there[i].path, going); !status.ok()) return status;
    if (absl::Status status = Remove(going); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Opened> Open(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(StrCat(path, ": is no folder; give a checkpoint, or a folder that has some"));
  }
  if (fs::exists(StrCat(path, "/", kManifestFile), error)) {
    absl::StatusOr<Manifest> manifest = ReadManifest(path);
    if (!manifest.ok()) return manifest.status();
    return Opened{path, *std::move(manifest), {}};
  }
  Opened opened;
  for (const Found& found : List(path)) {
    absl::StatusOr<Manifest> manifest = ReadManifest(found.path);
    if (!manifest.ok()) {
      opened.passed_over.push_back(std::string(manifest.status().message()));
      continue;
    }
    opened.path = found.path;
    opened.manifest = *std::move(manifest);
    return opened;
  }
  const std::string bad = absl::StrJoin(opened.passed_over, "; ");
  return absl::InvalidArgumentError(StrCat(path, ": has no ", bad.empty() ? "checkpoint" : StrCat("good checkpoint (", bad, ")"),
                                           "; give a checkpoint, or a folder that has some"));
}

}  // namespace twofold::checkpoint
