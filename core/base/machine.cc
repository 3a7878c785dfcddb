#include "core/base/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

// Of the group at `path` below `root`, and of those above it: inside a container those that exist are the container's.
std::optional<Bytes> LeastOf(const fs::path& root, const fs::path& path, const char* file) {
  std::optional<Bytes> least;
  for (fs::path group = path.relative_path();; group = group.parent_path()) {
    std::ifstream in(root / group / file);
    if (int64_t limit = 0; in >> limit) least = std::min(least.value_or(Bytes(limit)), Bytes(limit));  // "max": none
    if (group.empty()) return least;
  }
}

}  // namespace

std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return StrCat(HostName(), " ", boot);
}

Bytes MachineMemory() {
  const Bytes built_in(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  return std::min(built_in, LeastMemoryLimit("/proc/self/cgroup", "/sys/fs/cgroup").value_or(built_in));
}

std::optional<Bytes> LeastMemoryLimit(const fs::path& groups, const fs::path& root) {
  std::optional<Bytes> least;
  std::ifstream in(groups);
  for (std::string line; std::getline(in, line);) {  // "4:memory:/path", or of version 2 "0::/path"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    std::optional<Bytes> limit;
    if (parts[1].empty()) limit = LeastOf(root, parts[2], "memory.max");
    else if (std::ranges::count(controllers, "memory") > 0) limit = LeastOf(root / "memory", parts[2], "memory.limit_in_bytes");
    if (limit) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

}  // namespace twofold
