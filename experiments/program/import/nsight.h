// Reads what `nsys export --type=sqlite` makes of a profile of Nsight Systems: a SQLite database.
//
// What is used, by the names of NVIDIA's "SQLite Export Schema Reference" (times are nanoseconds):
//
//   CUPTI_ACTIVITY_KIND_KERNEL: start, end, deviceId, streamId, demangledName or shortName (in StringIds);
//   correlationId and globalPid if they are there
//
//   CUPTI_ACTIVITY_KIND_MEMCPY: the same, with bytes and copyKind in place of names. CUPTI_ACTIVITY_KIND_MEMSET:
//   likewise
//
//   CUPTI_ACTIVITY_KIND_RUNTIME: start, globalTid and correlationId of launches
//
//   NVTX_EVENTS: start, end, globalTid, and text or textId of named ranges. NCCL's own ranges say what its calls are,
//   and with a payload in JSON (jsonText, jsonTextId) their bytes
//
//   TARGET_INFO_GPU: id, name. TARGET_INFO_CUDA_DEVICE says which GPU is a process's device
//
//   TARGET_INFO_SESSION_START_TIME: utcEpochNs, where times begin
//
// nsys writes only tables that have rows. Kernels and StringIds must be there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/import/rank_trace.h"

namespace twofold {

// Whether a file is for these readers, by its name (.sqlite, .nsys-rep, ...) or its first bytes.
bool IsNsight(const std::string& file, std::string_view first_bytes);

// A rank is each pair of a process and a device that works at least a tenth of the time of that process's busiest one,
// in the order of devices, then of processes. InvalidArgument names the file, table, row and column: no database, no
// kernels, a column that is missing, a value of a wrong type or out of range.
absl::StatusOr<std::vector<RankTrace>> ReadNsight(const std::string& file);
// Of a database in memory. `file` is for errors and for the traces' names.
absl::StatusOr<std::vector<RankTrace>> ReadNsight(std::string_view bytes, const std::string& file);

}  // namespace twofold
