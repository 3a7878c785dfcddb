#include "backends/nccl/api.h"

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::nccl {
namespace {

constexpr int kOldest = 21800;    // the first with ncclCommSplit
constexpr int kAlltoAll = 22800;  // the first with ncclAlltoAll

absl::StatusOr<Api> Load() {
  absl::StatusOr<Api> api = LoadFunctions();
  if (!api.ok()) return api;
  api->Check(api->GetVersion(&api->version), "ncclGetVersion");
  if (api->version < kAlltoAll) api->AlltoAll = nullptr;
  if (api->version >= kOldest) return api;
  return FailedPrecondition("NCCL ", VersionText(api->version), " (", api->from, ") is too old: ", VersionText(kOldest),
                            " or later is needed, which can split communicators; set NCCL_HOME to its folder");
}

}  // namespace

std::string VersionText(int version) { return StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100); }

void Api::Check(ncclResult_t result, const char* call, ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return;
  std::string text = StrCat(call, ": ", std::string(GetErrorString(result)), " (NCCL ", VersionText(version));
  const char* const last = GetLastError(comm);
  if (last != nullptr && *last != '\0') StrAppend(&text, "; last error: ", std::string(last));
  throw NcclError(text + ")");
}

absl::StatusOr<const Api*> FindNccl() {
  static const absl::StatusOr<Api>* const api = new absl::StatusOr<Api>(Load());
  if (!api->ok()) return api->status();
  return &**api;
}

const Api& Nccl() {
  const absl::StatusOr<const Api*> api = FindNccl();
  TWOFOLD_CHECK(api.ok(), std::string(api.status().message()));
  return **api;
}

}  // namespace twofold::nccl
