// The machine: processor, memory, limits, clock, network of its own, folders.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/program/doctor/finding.h"

namespace twofold::doctor {

Findings AboutMachine();

// ---- The judgements, apart from where their figures come from ----
Finding AboutCores(const std::string& processor, int cores, double load);  // load: processes that want to run
Finding AboutMemory(int64_t all, int64_t available);                       // bytes
Finding AboutOpenFiles(uint64_t soft, uint64_t hard);
Finding AboutLockedMemory(uint64_t soft, bool network_or_gpu);  // bytes; something here registers memory
Finding AboutSharedMemory(bool there, int64_t free);            // of /dev/shm, bytes
Finding AboutClock(double step_s, const std::string& source);   // the least step that was seen

}  // namespace twofold::doctor
