// Reads what PyTorch's profiler writes: Kineto's trace (torch.profiler: export_chrome_trace,
// tensorboard_trace_handler), which is Chrome's trace event format. JSON, or JSON in a gzip file.
//
// What is used: events of categories kernel, gpu_memcpy, gpu_memset (what the device did), cuda_runtime and cuda_driver
// (launches, by correlation), user_annotation (named ranges, ProfilerStep#N among them), record_param_comms (the host's
// calls of collectives, with size, type and process group), [memory] (the allocator's state, with profile_memory=True),
// and the blocks distributedInfo, deviceProperties and baseTimeNanoseconds. Older names of categories ("Kernel",
// "Memcpy", "Runtime") are understood, and HIP's.
//
// A trace of a job without a GPU has operators (cpu_op) alone: host_work.h. PyTorch's legacy profiler, which builds
// without Kineto use (Debian's), writes a list of them with the process "CPU functions" and no categories.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "experiments/program/import/rank_trace.h"

namespace twofold {

// `file` is for errors and for the trace's name. InvalidArgument names it, the event ("traceEvents[12].dur") and what
// is wrong: no JSON, no trace, a field of a wrong type, a time that is no time, nothing that a device or, without
// a GPU, a CPU did.
absl::StatusOr<RankTrace> ReadKineto(std::string_view bytes, const std::string& file);

}  // namespace twofold
