// Whether runs here will be what they should: profiles of this machine, and what launchers have left in the
// environment.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "backends/launch/launch.h"
#include "core/proto/profile.pb.h"
#include "experiments/program/doctor/finding.h"

namespace twofold::doctor {

Findings AboutRuns();

// ---- The judgements ----
// Of the profile of this machine's kernels, as read from `path`. `processor`, `cores`: this machine's.
Finding AboutProfile(const absl::StatusOr<profile::Profile>& profile, const std::string& path,
                     const std::string& processor, int64_t cores, absl::Time now);
Finding AboutLauncher(const Variables& variables);

}  // namespace twofold::doctor
