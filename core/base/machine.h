// Which machine a process runs on. Any thread.
#pragma once

#include <string>

#include "core/base/units.h"

namespace twofold {

// "" where the system does not tell.
std::string HostName();

// The host's name and what tells it from others: one text for the processes of one host alone. Containers of one host have names
// of their own, and hosts of one name other kernels' ids.
std::string MachineId();

// That is built into it.
Bytes MachineMemory();

}  // namespace twofold
