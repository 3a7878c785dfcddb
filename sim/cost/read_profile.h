// Reads a machine profile from its file and checks it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"

namespace twofold {

// Where `twofold calibrate` writes the profile of the machine it runs on, relative to the current folder. The cluster
// "this-machine" reads it unless the spec names another.
inline constexpr char kThisMachineProfile[] = "runs/this-machine.profile.textproto";
// For its GPU: `--device=cuda`.
inline constexpr char kThisMachineCudaProfile[] = "runs/this-machine.cuda.profile.textproto";

// NOT_FOUND if there is no such file (says how to make one); INVALID_ARGUMENT names file, line or field, value and what
// would be right. The returned profile has at least one kernel, each with a name, a known element type and points whose
// dims, work and times are positive.
absl::StatusOr<profile::Profile> ReadProfile(const std::string& path);

// Likewise from the file's text.
absl::StatusOr<profile::Profile> ParseProfile(const std::string& text, const std::string& path);

// Only the checks; `path` appears in messages.
absl::Status CheckProfile(const profile::Profile& profile, const std::string& path);

}  // namespace twofold
