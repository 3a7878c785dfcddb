// Gloo's transport, with communication that can be ended from another thread.
//
// Gloo wakes who waits for a rank if the connection to it breaks. When a rank is lost, others wait for ranks that live,
// but that will never answer. So buffers are wrapped: whoever waits for one can be woken, and then gets an exception.
// All of Gloo's collectives that are used here communicate through such buffers. Who waits for a connection is woken,
// too.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace twofold::gloo {

// Of several transports together. Thread-safe.
class Abortion {
 public:
  // From now on, sending, receiving, waiting and connecting throw ::gloo::IoException; who waits now is woken. Takes up
  // to 10 ms for each thread that connects.
  void Abort();
  bool aborted() const;
  // `pair.connect(address)`, which can be aborted; the pair is of no use then.
  void Connect(::gloo::transport::Pair& pair, const std::vector<char>& address);

 private:
  friend class AbortableBuffer;
  template <class Of>
  class Waiting;  // while it exists, a buffer or a pair is waited for

  mutable std::mutex mutex_;
  bool aborted_ = false;
  std::set<::gloo::transport::UnboundBuffer*> waiting_;
  std::set<::gloo::transport::Pair*> connecting_;
};

// `inner` with buffers that `abortion` can abort.
std::shared_ptr<::gloo::transport::Context> Abortable(std::shared_ptr<::gloo::transport::Context> inner,
                                                      std::shared_ptr<Abortion> abortion);

}  // namespace twofold::gloo
