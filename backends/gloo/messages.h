// Messages over a Gloo context, with their sizes (communicate.h).
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/gloo/context.h"
#include "core/comm/communication.h"

namespace twofold::gloo {

// Messages that are under way together. All sends begin at once; a receive's data is asked for when its size is known.
class Messages {
 public:
  explicit Messages(const ContextPtr& context) : context_(context) {}
  void Send(const std::byte* data, int64_t bytes, int to, Tag tag);
  void Receive(std::byte* data, int64_t bytes, int from_or_any, Tag tag);
  // Until all have ended. Returns the sender of the last receive, -1 if there is none. Throws SizeMismatch.
  int Wait();

 private:
  using BufferPtr = std::unique_ptr<::gloo::transport::UnboundBuffer>;
  static constexpr size_t kShort = 1024;  // bytes that travel with the size
  struct Head {
    int64_t bytes = 0;
    std::array<std::byte, kShort> data;
  };
  struct Sending {
    std::unique_ptr<Head> head;
    BufferPtr first, rest;  // rest: null if all is in the first
  };
  struct Receiving {
    std::byte* data;
    int64_t bytes;
    Tag tag;
    std::unique_ptr<Head> head;
    BufferPtr first, rest = nullptr;
  };
  int Take(Receiving& message);
  ContextPtr context_;
  std::vector<Sending> sends_;
  std::vector<Receiving> receives_;
};

}  // namespace twofold::gloo
