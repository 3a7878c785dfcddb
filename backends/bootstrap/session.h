// A session whose processes find each other as their launcher says.
#pragma once

#include <string>

#include "backends/processes/session.h"
#include "core/proto/spec.pb.h"

namespace twofold {

class BootstrappedSession : public processes::Session {
 protected:
  // Finds the other processes, as the spec says, and this one's place among them. Errors begin with `fabric`.
  absl::Status Meet(const spec::Spec& spec, const std::string& fabric);
};

}  // namespace twofold
