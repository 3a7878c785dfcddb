// One process's connection to the control plane.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/control/address.h"
#include "backends/control/control.pb.h"
#include "backends/control/tls.h"

namespace twofold::control {

class Link {
 public:
  // Called by any thread, one at a time. They must not block. Nothing comes after `ended`. ABORTED: the plane has ended
  // the connection, and the message says why.
  struct Events {
    std::function<void(FromHub)> heard;
    std::function<void(absl::Status)> ended;
  };
  virtual ~Link() = default;
  // From any thread. What is sent after the end is lost.
  virtual void Send(ToHub message) = 0;
  // In order: sends the last message, and waits until the connection has ended, but not for long.
  virtual void Leave() = 0;
};

// Connects to the plane that rank 0 serves. Blocks until the connection is there, at most until `deadline`.
// UNAVAILABLE, saying why nothing answers; INVALID_ARGUMENT: a bad certificate; UNIMPLEMENTED: this build has no gRPC.
absl::StatusOr<std::unique_ptr<Link>> Dial(const Endpoint& endpoint, const std::string& token, const Tls& tls,
                                           std::chrono::steady_clock::time_point deadline, Link::Events events);

}  // namespace twofold::control
