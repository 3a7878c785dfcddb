#include "core/base/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

// The lowest limit of the group at `path` below `root` and of its ancestors. Inside a container only the container's
// own groups exist.
std::optional<int64_t> LeastOf(const fs::path& root, const fs::path& path, const char* file) {
  std::optional<int64_t> least;
  for (fs::path group = path.relative_path();; group = group.parent_path()) {
    std::ifstream in(root / group / file);
    if (int64_t limit = 0; in >> limit) least = std::min(least.value_or(limit), limit);  // "max" means no limit
    if (group.empty()) return least;
  }
}

// A limit of control groups and the file that holds it, in cgroup v2 and in v1.
struct Limited {
  const char *controller, *file, *file_of_v1;
};

std::optional<int64_t> LeastLimit(const fs::path& groups, const fs::path& root, const Limited& what) {
  std::optional<int64_t> least;
  std::ifstream in(groups);
  for (std::string line; std::getline(in, line);) {  // "4:memory:/path", or "0::/path" in cgroup v2
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    std::optional<int64_t> limit;
    if (parts[1].empty())
      limit = LeastOf(root, parts[2], what.file);
    else if (std::ranges::count(controllers, what.controller) > 0)
      limit = LeastOf(root / what.controller, parts[2], what.file_of_v1);
    if (limit) least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

std::optional<int64_t> NumberIn(const fs::path& file) {
  std::ifstream in(file);
  if (int64_t number = 0; in >> number) return number;
  return std::nullopt;
}

}  // namespace

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname names{};
  return uname(&names) == 0 ? names.machine : "unknown";
}

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
  const std::optional<int64_t> least = LeastLimit(groups, root, {"memory", "memory.max", "memory.limit_in_bytes"});
  return least ? std::optional(Bytes(*least)) : std::nullopt;
}

ThreadLimit MostThreads(const fs::path& proc, const fs::path& root) {
  ThreadLimit most{std::numeric_limits<int64_t>::max(), "no limit of the system"};
  const auto at_most = [&most](std::optional<int64_t> limit, int64_t a_thread, const std::string& name) {
    if (!limit || *limit / a_thread >= most.threads) return;
    most = {*limit / a_thread,
            StrCat(name, " = ", *limit, a_thread > 1 ? StrCat(", and each thread takes ", a_thread) : "")};
  };
  at_most(NumberIn(proc / "sys/vm/max_map_count"), 2, "vm.max_map_count");  // its stack and the guard page below it
  at_most(NumberIn(proc / "sys/kernel/threads-max"), 1, "kernel.threads-max");
  at_most(NumberIn(proc / "sys/kernel/pid_max"), 1, "kernel.pid_max");
  at_most(LeastLimit(proc / "self/cgroup", root, {"pids", "pids.max", "pids.max"}), 1, "pids.max of the control group");
  if (rlimit own{}; getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
    at_most(static_cast<int64_t>(own.rlim_cur), 1, "ulimit -u");
  return most;
}

}  // namespace twofold
