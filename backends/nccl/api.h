// NCCL's functions. The library is loaded when the first of them is asked for, not when the program starts, so that the program
// starts where it is not there: linked.cc has them where the emulated one is built in (cmake/cuda.cmake), else loaded.cc.
#pragma once

#include <nccl.h>

#include <stdexcept>
#include <string>

#include "absl/status/statusor.h"

namespace twofold::nccl {

// What NCCL says went wrong: "ncclAllReduce: unhandled system error (NCCL 2.28.9; its last words: ...)".
class NcclError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

#define TWOFOLD_NCCL_FUNCTIONS(F)                                                                                             \
  F(GetVersion) F(GetErrorString) F(GetLastError) F(GetUniqueId) F(CommInitRankConfig) F(CommSplit) F(CommDestroy)             \
  F(CommAbort) F(CommGetAsyncError) F(CommCount) F(CommUserRank) F(AllReduce) F(Reduce) F(Broadcast) F(AllGather)              \
  F(ReduceScatter) F(Send) F(Recv) F(GroupStart) F(GroupEnd)

struct Api {
#define TWOFOLD_DECLARE(name) decltype(&::nccl##name) name;
  TWOFOLD_NCCL_FUNCTIONS(TWOFOLD_DECLARE)
#undef TWOFOLD_DECLARE
  int version = 0;   // 22809 is 2.28.9
  std::string from;  // the file, or "emulated"

  // Throws NcclError unless `result` is success. `call`: "ncclAllReduce"; `comm` may be null.
  void Check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) const;
};

// UNAVAILABLE: why it cannot be loaded; FAILED_PRECONDITION: it is too old. The same in every call; any thread.
absl::StatusOr<const Api*> FindNccl();
const Api& Nccl();  // where FindNccl has found it

std::string VersionText(int version);  // "2.28.9"

// All functions but no version: what linked.cc and loaded.cc define.
absl::StatusOr<Api> LoadFunctions();

}  // namespace twofold::nccl
