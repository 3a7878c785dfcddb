// `twofold calibrate --device=cuda`: measures a GPU kernel by kernel and makes a profile. No training job is run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::calibrate {

// Fills all but `created` and collectives. `cuda`: which GPU (the first), and spec.cuda.time_algorithms. `tell`:
// receives lines of progress. Returns an error if there is no GPU or the GPU fails. Takes as many samples as the time
// budget allows (gpu_cases.h); `tiny`: few sizes, for tests.
absl::StatusOr<profile::Profile> CalibrateGpu(const spec::Cuda& cuda, bool tiny,
                                              const std::function<void(const std::string&)>& tell);

}  // namespace twofold::calibrate
