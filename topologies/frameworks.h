// The frameworks that ship with the program (catalogue/frameworks), and users' files in the same format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/framework.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct FrameworkInfo {
  std::string name, summary, source;  // name: the value of the spec's field
};
std::vector<FrameworkInfo> ListFrameworks();

// The framework that a spec names: its framework_profile, a file, else the catalogue's. Without fields if it names none
// (TWOFOLD). Refuses a file that cannot be read and impossible figures; messages begin with the spec's field, or name
// file, field and value.
absl::StatusOr<framework::Framework> FindFramework(const spec::Spec& spec);

}  // namespace twofold
