// Gloo's transport, with communication that can be ended from another thread.
//
// Gloo wakes who waits for a rank if the connection to it breaks. When a rank is lost, others wait for ranks that live,
// but that will never answer. So buffers are wrapped: whoever waits for one can be woken, and then gets an exception.
// All of Gloo's collectives that are used here communicate through such buffers.
#pragma once

#include <gloo/transport/context.h>

#include <memory>
#include <mutex>
#include <set>

namespace twofold::gloo {

// Of several transports together. Thread-safe.
class Abortion {
 public:
  // From now on, waiting throws ::gloo::IoException; who waits now is woken.
  void Abort();
  bool aborted() const;

 private:
  friend class AbortableBuffer;
  class Waiting;  // while it exists, a buffer is waited for

  mutable std::mutex mutex_;
  bool aborted_ = false;
  std::set<::gloo::transport::UnboundBuffer*> waiting_;
};

// `inner` with buffers that `abortion` can abort.
std::shared_ptr<::gloo::transport::Context> Abortable(std::shared_ptr<::gloo::transport::Context> inner,
                                                      std::shared_ptr<Abortion> abortion);

}  // namespace twofold::gloo
