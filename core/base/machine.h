// The machine that a process runs on. Callable from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/units.h"

namespace twofold {

// "" if the system does not report a host name.
std::string HostName();

// The host name plus the kernel's boot id. Processes have the same id only if they run on the same host: containers of
// one host differ in host name, and hosts with the same name differ in boot id.
std::string MachineId();

// The processor's own name, else its architecture.
std::string ProcessorName();

// The physical memory, or the limit of this process's control group (of a container or a scheduler's job) if that is
// lower.
Bytes MachineMemory();

// The lowest memory limit of this process's control groups and their ancestors (Linux: memory.max in cgroup v2,
// memory.limit_in_bytes in v1). `groups` is a file like /proc/self/cgroup, `root` a folder like /sys/fs/cgroup.
// nullopt: no limit.
std::optional<Bytes> LeastMemoryLimit(const std::filesystem::path& groups, const std::filesystem::path& root);

// The maximum number of threads of a process, and the limit behind it: "vm.max_map_count = 65530, of which a thread
// takes 2".
struct ThreadLimit {
  int64_t threads;
  std::string what;
};
// The lowest of the system's limits below `proc` and `root` (folders like /proc and /sys/fs/cgroup) and of the user's
// own limit.
ThreadLimit MostThreads(const std::filesystem::path& proc = "/proc",
                        const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace twofold
