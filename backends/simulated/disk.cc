#include "backends/simulated/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;
using Lock = std::lock_guard<std::recursive_mutex>;

// Where a file is that was created under this name: small files and folders are renamed once they are complete.
std::optional<std::string> PlaceOf(const std::string& path) {
  const std::string named(absl::StripSuffix(path, ".part"));
  std::error_code none;
  for (const std::string& place : {path, named, absl::StrReplaceAll(path, {{".partial/", "/"}}),
                                   absl::StrReplaceAll(named, {{".partial/", "/"}})}) {
    if (fs::is_regular_file(place, none)) return place;
  }
  return std::nullopt;
}

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

// Drops what a file has from byte `from` to byte `to`. If its space was reserved, it keeps its length.
void Drop(const std::string& path, int64_t from, int64_t to, bool reserved) {
  if (!reserved) {
    TWOFOLD_CHECK_EQ(truncate(path.c_str(), from), 0);
    return;
  }
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const std::vector<std::byte> zeros(static_cast<size_t>(to - from));
  TWOFOLD_CHECK_EQ(RealDisk().Write(file, zeros, from), 0);
  close(file);
}

}  // namespace

SimulatedDisk::~SimulatedDisk() {
  for (const int file : damaged_) close(file);
}

void SimulatedDisk::Before(int64_t operation, std::function<void(SimulatedDisk&)> fn) {
  before_.emplace(operation, std::move(fn));
}

bool SimulatedDisk::has_power() const {
  const Lock lock(mutex_);
  return has_power_;
}

std::string SimulatedDisk::Damage(int64_t file, double at) {
  const Lock lock(mutex_);
  for (auto written = written_.rbegin(); written != written_.rend(); ++written) {
    const std::optional<std::string> path = PlaceOf(written->path);
    if (!path || file-- > 0) continue;
    const int64_t size = static_cast<int64_t>(fs::file_size(*path));
    if (size == 0) return "";
    const double place = at * static_cast<double>(size);
    const int64_t byte = std::min(size - 1, static_cast<int64_t>(place));
    const auto bit = static_cast<unsigned>((place - std::floor(place)) * 8) % 8;
    const int opened = open(path->c_str(), O_RDWR | O_CLOEXEC);
    std::byte value{};
    size_t got = 0;
    TWOFOLD_CHECK_EQ(RealDisk().Read(opened, {&value, 1}, byte, got), 0);
    value ^= std::byte{1} << bit;
    TWOFOLD_CHECK_EQ(RealDisk().Write(opened, {&value, 1}, byte), 0);
    damaged_.push_back(opened);
    return *path;
  }
  return "";
}

bool SimulatedDisk::IsDeleted(size_t call) const {
  const Lock lock(mutex_);
  struct stat info {};
  TWOFOLD_CHECK_EQ(fstat(damaged_.at(call), &info), 0);
  return info.st_nlink == 0;
}

void SimulatedDisk::LosePower(double kept) {
  const Lock lock(mutex_);
  if (!std::exchange(has_power_, false)) return;
  for (const Written& written : written_) {
    const std::optional<std::string> path = PlaceOf(written.path);
    if (!path || written.flushed == written.size) continue;
    const auto stays = static_cast<int64_t>(kept * static_cast<double>(written.size - written.flushed));
    if (written.flushed + stays == 0) {
      fs::remove(*path);
    } else {
      Drop(*path, written.flushed + stays, written.size, written.reserved > 0);
    }
  }
  if (kept == 0) TakeNamesBack();
}

void SimulatedDisk::NoteName(const std::string& before, const std::string& now) {
  for (Named& named : names_) {  // what lies in a folder that was renamed
    if (absl::StartsWith(named.now, before + "/") && !before.empty()) named.now = now + named.now.substr(before.size());
  }
  names_.push_back({before, now, InodeOf(now)});
}

// The last one first. Another rank may have renamed the folder since.
void SimulatedDisk::TakeNamesBack() {
  std::error_code none;
  for (; !names_.empty(); names_.pop_back()) {
    const Named& named = names_.back();
    const std::string complete = absl::StrReplaceAll(named.now, {{".partial/", "/"}});
    const std::string& place = InodeOf(named.now) == named.inode ? named.now : complete;
    if (InodeOf(place) != named.inode) continue;
    if (named.before.empty())
      fs::remove(place, none);
    else
      fs::rename(place, fs::path(place).parent_path() / fs::path(named.before).filename(), none);
  }
}

int SimulatedDisk::Begin(bool needs_space) {
  const auto [first, last] = before_.equal_range(++operations_);
  for (auto due = first; due != last; ++due) due->second(*this);
  if (!has_power_) return EIO;
  if (!needs_space || full_ == 0) return 0;
  --full_;
  return ENOSPC;
}

SimulatedDisk::Written* SimulatedDisk::Of(int file) {
  const auto found = open_.find(file);
  return found == open_.end() ? nullptr : &written_[found->second];
}

int SimulatedDisk::Create(const std::string& path, bool anew, int& file) {
  const Lock lock(mutex_);
  if (const int error = Begin(false); error != 0) return error;
  const bool is_new = InodeOf(path) == 0;
  if (const int error = below_.Create(path, anew, file); error != 0) return error;
  if (is_new) NoteName("", path);
  for (Written& earlier : written_) {
    if (earlier.path == path) earlier.path.clear();  // it was removed, or its contents were
  }
  open_[file] = written_.size();
  written_.push_back({.path = path});
  return 0;
}

int SimulatedDisk::Reserve(int file, int64_t bytes) {
  const Lock lock(mutex_);
  if (const int error = Begin(true); error != 0) return error;
  const int error = below_.Reserve(file, bytes);
  if (error == 0) Of(file)->reserved = bytes;
  return error;
}

int SimulatedDisk::Write(int file, std::span<const std::byte> bytes, int64_t offset) {
  const Lock lock(mutex_);
  if (const int error = Begin(true); error != 0) return error;
  const int error = below_.Write(file, bytes, offset);
  if (error == 0) Of(file)->size = std::max(Of(file)->size, offset + static_cast<int64_t>(bytes.size()));
  return error;
}

int SimulatedDisk::Flush(int file) {
  const Lock lock(mutex_);
  if (const int error = Begin(false); error != 0) return error;
  Of(file)->flushed = Of(file)->size;  // it is in memory, so there is nothing to wait for
  return 0;
}

int SimulatedDisk::CloseWritten(int file) {
  const Lock lock(mutex_);
  open_.erase(file);
  return below_.CloseWritten(file);
}

int SimulatedDisk::Read(int file, std::span<std::byte> out, int64_t offset, size_t& got) {
  const Lock lock(mutex_);
  got = 0;
  if (const int error = Begin(false); error != 0) return error;
  if (failing_reads_ == 0) return below_.Read(file, out, offset, got);
  --failing_reads_;
  return EIO;
}

int SimulatedDisk::MakeFolder(const std::string& path) {
  const Lock lock(mutex_);
  const int error = Begin(false);
  return error != 0 ? error : below_.MakeFolder(path);
}

int SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  const Lock lock(mutex_);
  if (const int error = Begin(false); error != 0) return error;
  const int error = below_.Rename(from, to);
  if (error == 0) NoteName(from, to);
  return error;
}

int SimulatedDisk::Remove(const std::string& path) {
  const Lock lock(mutex_);
  const int error = Begin(false);
  return error != 0 ? error : below_.Remove(path);
}

int SimulatedDisk::FlushFolder(const std::string& path) {
  const Lock lock(mutex_);
  if (const int error = Begin(false); error != 0) return error;
  const int error = below_.FlushFolder(path);
  if (error == 0) std::erase_if(names_, [&](const Named& named) { return FolderOf(named.now) == path; });
  return error;
}

}  // namespace twofold
