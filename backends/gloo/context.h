// A Gloo context of a group: TCP connections between each two of its ranks.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/gloo/abortable.h"

namespace twofold::gloo {

using ContextPtr = std::shared_ptr<::gloo::Context>;
using TransportPtr = std::shared_ptr<::gloo::transport::Device>;

// Gives every rank of the new group the bytes of all of them, indexed by rank. Called once; may throw.
using Exchange = std::function<std::vector<std::string>(std::string bytes)>;

// Collective over the group's ranks. Throws ::gloo::Exception if a rank cannot be reached, or does not connect within
// `timeout_s` after it has told its addresses. Calls on the context never time out: whether somebody hangs is for the
// control plane to say. `abortion` can end them, and this one, too.
ContextPtr Connect(int rank, int size, const Exchange& exchange, TransportPtr transport,
                   std::shared_ptr<Abortion> abortion, double timeout_s);

// Contexts of groups that have ended, until their run has. A context that goes away resets its connections, and what
// this rank has sent may still be on its way. Thread-safe.
class EndedContexts {
 public:
  void Keep(ContextPtr context) {
    const std::lock_guard lock(mutex_);
    contexts_.push_back(std::move(context));
  }
  void Close() {  // once all ranks have what was sent to them
    const std::lock_guard lock(mutex_);
    contexts_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<ContextPtr> contexts_;
};

// The TCP transport of this process, which listens at one of its addresses:
//   several hosts   that of the network interface GLOO_SOCKET_IFNAME; else the one that routes to rank 0's host
//   one host        the loopback address
// `master`: rank 0's host, as others reach it; "" if unknown. Throws std::runtime_error if other hosts could not reach
// the address.
TransportPtr MakeTransport(bool one_host, const std::string& master);

}  // namespace twofold::gloo
