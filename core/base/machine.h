// Which machine a process runs on. Any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/units.h"

namespace twofold {

// "" where the system does not tell.
std::string HostName();

// The host's name and what tells it from others: one text for the processes of one host alone. Containers of one host have names
// of their own, and hosts of one name other kernels' ids.
std::string MachineId();

// That is built into it, or what the control group of this process, as of a container or of a scheduler's job, may have of it.
Bytes MachineMemory();

// The least that a control group or one above it allows (Linux's memory.max of version 2, memory.limit_in_bytes of version 1), as told by
// the files `groups` (of /proc/self/cgroup's kind) and those below `root` (of /sys/fs/cgroup's). Nothing: no limit.
std::optional<Bytes> LeastMemoryLimit(const std::filesystem::path& groups, const std::filesystem::path& root);

// How many threads a process may have, and what says so: "vm.max_map_count = 65530, of which a thread takes 2".
struct ThreadLimit { int64_t threads; std::string what; };
// The least of what the system's files below `proc` and `root` (of /proc's and /sys/fs/cgroup's kind) say, and of the user's own limit.
ThreadLimit MostThreads(const std::filesystem::path& proc = "/proc", const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace twofold
