// One process's connection to the control plane.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "backends/control/control.pb.h"

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

}  // namespace twofold::control
