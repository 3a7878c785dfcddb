// Which machine a process runs on. Any thread.
#pragma once

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

}  // namespace twofold
