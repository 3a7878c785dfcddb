// From an imported trace to a rank's record, as this program's own ranks leave it.
//
// Each moment of a step belongs to one part, in this order:
//   kernels               the device computes, on any stream; copies within the device count
//   exposed communication the device computes nothing, and a kernel of NCCL runs
//   other waits           neither, and the device copies from or to the host or another device
//   the host              the device does nothing
// They add up to the step. A moment at which several kernels run counts for the one that began first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "experiments/program/import/rank_trace.h"

namespace twofold {

struct ImportOptions {
  std::string step;                           // as StepsOf takes it
  std::map<std::string, std::string> groups;  // process group in the trace to its name in the report
};

// The record has steps, kernels, collectives, memory, spans of all steps and notes. Times of spans are relative to the
// trace's origin. Streams are "compute" (the one that computes most), "compute 20" and "communication GROUP".
absl::StatusOr<report::RankRecord> ToRecord(const RankTrace& trace, const ImportOptions& options);

// Of a process group's description: "default_pg" is "world", "mesh_tp" is "tp", TENSOR_MODEL_PARALLEL_GROUP of
// Megatron-LM is "tp". Others stay.
std::string GroupName(const std::string& description);

}  // namespace twofold
