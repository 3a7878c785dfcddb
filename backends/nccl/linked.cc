// The emulated NCCL, which is linked into the program.
#include "backends/nccl/api.h"

namespace twofold::nccl {

absl::StatusOr<Api> LoadFunctions() {
  Api api;
#define TWOFOLD_TAKE(name) api.name = &::nccl##name;
  TWOFOLD_NCCL_FUNCTIONS(TWOFOLD_TAKE)
#undef TWOFOLD_TAKE
  api.AlltoAll = &::ncclAlltoAll;
  api.from = "emulated";
  return api;
}

}  // namespace twofold::nccl
