// `twofold calibrate --device=cuda`: a GPU, measured kernel by kernel, into a profile. No training job is run.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::calibrate {

// All but `created` and collectives. `cuda`: which GPU (the first), and spec.cuda.time_algorithms. `tell`: progress, a line now and then.
// Ends with an error where there is no GPU or it fails. Takes as many samples as its time allows (gpu_cases.h); `tiny`: few sizes, for tests.
absl::StatusOr<profile::Profile> CalibrateGpu(const spec::Cuda& cuda, bool tiny, const std::function<void(const std::string&)>& tell);

}  // namespace twofold::calibrate
