// How much memory each rank of a spec has, and which kind of device determines the workspaces of its operations. The
// rules are the same for a real rank, a simulated rank and a rank replayed for its memory alone.
#pragma once

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::host {

enum class RanksAre { kThreads, kProcesses };  // threads of one process, or a process each

struct MemoryRules {
  DeviceKind kind = DeviceKind::kCpu;
  // Device memory a rank may reserve: its device's, or memory.budget_mib if that is less; zero: not bounded.
  Bytes device;
  Bytes host;  // host memory a rank may reserve: the device's part, or memory.host_budget_mib; zero: not bounded
  // What all ranks of cluster this-machine may reserve together, on its CPU, if there is no per-rank device limit; else
  // zero.
  Bytes shared;
};

// For ranks on `device`, which is a CPU's if it is EMULATED, and a GPU's if the spec says CUDA. Does not set `shared`.
MemoryRules MemoryRulesOf(const spec::Spec& spec, const cluster::Device& device);
// For ranks on this machine. Ranks that share a GPU may each take an equal part of the memory that is free there (if
// ranks are processes that a launcher started: of this process's GPU). If device is CUDA and there is no GPU, memory is
// not bounded.
MemoryRules MemoryRulesHere(const spec::Spec& spec, RanksAre ranks);
// Reads fabric, device, emulated, cuda and memory. Refuses an unknown cluster, or nodes that it does not have.
absl::StatusOr<MemoryRules> FindMemoryRules(const spec::Spec& spec, RanksAre ranks);

}  // namespace twofold::host
