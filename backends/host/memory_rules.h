// How much memory each rank of a spec has, and by which device's rules operations take it: the same for a rank that runs,
// one that is simulated and one that is replayed for its memory alone.
#pragma once

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::host {

struct MemoryRules {
  DeviceKind kind = DeviceKind::kCpu;
  Bytes device;  // that a rank may reserve: of its device, or memory.budget_mib where that is less; zero: not bounded
  Bytes host;    // likewise, of the host's memory: what falls to the device, or memory.host_budget_mib
  Bytes shared;  // that all ranks of cluster this-machine may reserve together, on its CPU, where nothing bounds each on the device; else zero
};

// Of ranks that run on `device`, a CPU's where it is EMULATED, and on a GPU where the spec says CUDA. `shared` is left out.
MemoryRules MemoryRulesOf(const spec::Spec& spec, const cluster::Device& device);
// Of ranks that run on this machine. Where GPUs are shared, each rank may take an even part of what is free there (where ranks are
// processes that a launcher has started: of this one's GPU); where device is CUDA and there is no GPU, it is not bounded.
MemoryRules MemoryRulesHere(const spec::Spec& spec);
// By fabric, device, emulated, cuda and memory. Refuses a cluster that is not there, or nodes that it does not have.
absl::StatusOr<MemoryRules> FindMemoryRules(const spec::Spec& spec);

}  // namespace twofold::host
