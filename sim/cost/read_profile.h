// A machine profile from its file, checked.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"

namespace twofold {

// Where `twofold calibrate` leaves the profile of the machine it runs on, below the current folder; the cluster
// "this-machine" reads it unless the spec names another.
inline constexpr char kThisMachineProfile[] = "runs/this-machine.profile.textproto";
inline constexpr char kThisMachineCudaProfile[] = "runs/this-machine.cuda.profile.textproto";  // of its GPU: `--device=cuda`

// NOT_FOUND when there is no such file (says how to make one), INVALID_ARGUMENT naming file, line or field, value and
// what would be right. What comes back has one kernel or more, each with a name, a known element type and points whose
// dims, work and times are positive.
absl::StatusOr<profile::Profile> ReadProfile(const std::string& path);

// Likewise from the file's text.
absl::StatusOr<profile::Profile> ParseProfile(const std::string& text, const std::string& path);

// The checks alone; `path` is named in messages.
absl::Status CheckProfile(const profile::Profile& profile, const std::string& path);

}  // namespace twofold
