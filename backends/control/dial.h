// Connects a process to the control plane that rank 0 serves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/control/address.h"
#include "backends/control/link.h"
#include "backends/control/tls.h"

namespace twofold::control {

// Blocks until the connection is there, at most until `deadline`. UNAVAILABLE, saying why nothing answers;
// INVALID_ARGUMENT: a bad certificate; UNIMPLEMENTED: this build has no gRPC.
absl::StatusOr<std::unique_ptr<Link>> Dial(const Endpoint& endpoint, const std::string& token, const Tls& tls,
                                           std::chrono::steady_clock::time_point deadline, Link::Events events);

}  // namespace twofold::control
