// One rank's trace from another program, without that program's format: what its device and its host did, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace twofold {

// Of a collective or a message. What the trace does not say is empty or 0.
struct ImportedCall {
  std::string operation;  // "all_reduce", as in reports; "send_recv": grouped messages
  std::string group;      // the process group's description, else its name
  int64_t group_size = 0;
  int64_t bytes = 0;  // payload, counted as in nccl-tests
};

// Something that the device did: a kernel or a copy. Times are seconds since the trace's own origin.
struct DeviceSpan {
  std::string name;
  double start = 0, end = 0;
  int64_t stream = 0, device = 0;
  int64_t bytes = 0;                                // of copies; else 0
  int64_t correlation = -1;                         // joins it to its launch; -1: not known
  std::optional<ImportedCall> call = std::nullopt;  // of communication kernels, as far as they say themselves
  bool continues = false;                           // a further piece of work that was counted before
};

// Something on one of the host's threads.
struct HostSpan {
  std::string name;
  double start = 0, end = 0;
  int64_t thread = 0;
  int64_t bytes = 0;  // of the first tensor that it was given, if the trace says so
};
struct KernelLaunch {
  int64_t correlation = 0, thread = 0;
  double time = 0;
};
struct HostCall {  // the host's call of a collective; the kernels that it launches within are the collective's
  HostSpan span;
  ImportedCall call;
};
struct MemoryState {  // of the device's allocator
  double time = 0;
  int64_t allocated = 0, reserved = 0;
};

struct RankTrace {
  std::string file;
  std::string program;         // whose trace it is: "PyTorch's profiler"
  std::string fabric;          // what reports call the run's fabric: "pytorch"
  std::string records_memory;  // how that program is told to trace memory: "profile_memory=True"; "": it is not
  std::optional<int64_t> rank, world_size;
  bool on_host = false;               // `device` is what the host's CPU did: there was no GPU
  std::string device_name;            // "NVIDIA H100 80GB HBM3"; "": not known
  int64_t clock_nanoseconds = 0;      // of the origin of times, on a clock that ranks of a machine share
  std::vector<DeviceSpan> device;     // in the order of the file
  std::vector<HostSpan> annotations;  // ranges that the user's program named
  std::vector<KernelLaunch> launches;
  std::vector<HostCall> calls;
  std::vector<MemoryState> memory;  // in the order of the file
  std::vector<std::string> notes;   // what its reader left out
};

}  // namespace twofold
