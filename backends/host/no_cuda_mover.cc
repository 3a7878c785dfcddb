#include "backends/host/cuda_mover.h"
#include "core/base/check.h"

namespace twofold::host {

std::unique_ptr<Mover> MakeCudaMover(Device&) {
  TWOFOLD_CHECK(false, "this build is without CUDA");
  return nullptr;
}

absl::Status ConnectGpus(std::span<const int>) { return absl::OkStatus(); }  // there are none

}  // namespace twofold::host
