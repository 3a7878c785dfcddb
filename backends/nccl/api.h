// NCCL's functions. The library is loaded at the first request for one, not at program start, so that the program also
// starts on machines without NCCL. linked.cc defines them if the emulated NCCL is built in (cmake/cuda.cmake),
// otherwise loaded.cc.
#pragma once

#include <nccl.h>

#include <stdexcept>
#include <string>

#include "absl/status/statusor.h"

namespace twofold::nccl {

// An error reported by NCCL: "ncclAllReduce: unhandled system error (NCCL 2.28.9; last error: ...)".
class NcclError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// clang-format off
#define TWOFOLD_NCCL_FUNCTIONS(F)                                                                                     \
  F(GetVersion) F(GetErrorString) F(GetLastError) F(GetUniqueId) F(CommInitRankConfig) F(CommSplit) F(CommFinalize)   \
  F(CommDestroy) F(CommAbort) F(CommGetAsyncError) F(CommCount) F(CommUserRank) F(AllReduce) F(Reduce) F(Broadcast) F(AllGather)     \
  F(ReduceScatter) F(Send) F(Recv) F(GroupStart) F(GroupEnd)
// clang-format on

struct Api {
#define TWOFOLD_DECLARE(name) decltype(&::nccl##name) name;
  TWOFOLD_NCCL_FUNCTIONS(TWOFOLD_DECLARE)
#undef TWOFOLD_DECLARE
  // Since 2.28; null in earlier ones.
  ncclResult_t (*AlltoAll)(const void* from, void* to, size_t count_for_each, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) = nullptr;
  int version = 0;   // 22809 is 2.28.9
  std::string from;  // the file, or "emulated"

  // Throws NcclError unless `result` is success, or says that a non-blocking communicator has begun. `call`:
  // "ncclAllReduce"; `comm` may be null.
  void Check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) const;
};

// UNAVAILABLE, with the reason, if it cannot be loaded; FAILED_PRECONDITION if it is too old. Every call returns the
// same; thread-safe.
absl::StatusOr<const Api*> FindNccl();
const Api& Nccl();  // call only after FindNccl has succeeded

std::string VersionText(int version);  // "2.28.9"

// Sets all functions but not the version. Defined by linked.cc and loaded.cc.
absl::StatusOr<Api> LoadFunctions();

}  // namespace twofold::nccl
