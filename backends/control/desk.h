// The control plane of rank 0's process with its clock, for connections of any kind: those of a server (server.h), and
// those of this process's own ranks.
//
// Thread-safe. One thread of its own looks at the clock, which stands still while the process does (running_clock.h).
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/control/link.h"
#include "backends/control/loop.h"
#include "backends/control/plane.h"
#include "backends/control/running_clock.h"

namespace twofold::control {

class Desk {
 public:
  explicit Desk(Plane::Options options);

  // `visitor` is called with the desk's lock held: to send, and to end the connection once what was sent has gone.
  Plane::Connection Open(Link::Events visitor);
  absl::Status Hear(Plane::Connection from, const ToHub& message);  // not OK: to be hung up on
  void Close(Plane::Connection connection);                         // it has ended; the visitor is forgotten
  void RefusedStranger(const std::string& from);
  // Tells all that the plane ends, and waits for them to leave, but not for long.
  void SayFarewell();

 private:
  void Tick();

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  RunningClock clock_;
  std::map<Plane::Connection, Link::Events> visitors_;
  Plane::Connection last_ = 0;
  Plane plane_;
  Loop loop_;
};

// A connection within this process.
std::unique_ptr<Link> ConnectHere(std::shared_ptr<Desk> desk, Link::Events events);

}  // namespace twofold::control
