#include "backends/gloo/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/gloo/communicate.h"
#include "core/base/strings.h"

namespace twofold::gloo {
namespace {

// Gloo's collectives use the slots whose upper byte is 1 to 8.
constexpr uint64_t kHeads = uint64_t{0x40} << 56, kBodies = uint64_t{0x41} << 56;
uint64_t SlotOf(uint64_t kind, Tag tag) { return kind + static_cast<uint64_t>(tag); }

}  // namespace

void Messages::Send(const std::byte* data, int64_t bytes, int to, Tag tag) {
  Sending& message = sends_.emplace_back();
  message.head = std::make_unique<Head>();
  message.head->bytes = bytes;
  const auto size = static_cast<size_t>(bytes);
  const bool is_short = size <= kShort;
  if (is_short && bytes > 0) std::memcpy(message.head->data.data(), data, size);
  message.first = context_->createUnboundBuffer(message.head.get(), sizeof(Head));
  message.first->send(to, SlotOf(kHeads, tag), 0, sizeof(int64_t) + (is_short ? size : 0));
  if (is_short) return;
  message.rest = context_->createUnboundBuffer(const_cast<std::byte*>(data), size);  // only read
  message.rest->send(to, SlotOf(kBodies, tag));
}

void Messages::Receive(std::byte* data, int64_t bytes, int from_or_any, Tag tag) {
  Receiving& message = receives_.emplace_back(Receiving{data, bytes, tag, std::make_unique<Head>(), nullptr});
  message.first = context_->createUnboundBuffer(message.head.get(), sizeof(Head));
  const uint64_t slot = SlotOf(kHeads, tag);
  if (from_or_any != kAnySource) return message.first->recv(from_or_any, slot);
  std::vector<int> others;
  for (int r = 0; r < context_->size; ++r) {
    if (r != context_->rank) others.push_back(r);
  }
  message.first->recv(std::move(others), slot);
}

// Once its size has come: asks for the data, if they have not come with it. Returns the sender.
int Messages::Take(Receiving& message) {
  int source = -1;
  message.first->waitRecv(&source);
  const int64_t sent = message.head->bytes;
  if (sent != message.bytes) {
    throw SizeMismatch(StrCat("a message of ", sent, " bytes came from rank ", source, " of the group with tag ",
                              message.tag, ", but ", message.bytes, " were expected"));
  }
  const auto size = static_cast<size_t>(sent);
  if (size <= kShort) {
    if (size > 0) std::memcpy(message.data, message.head->data.data(), size);
    return source;
  }
  message.rest = context_->createUnboundBuffer(message.data, size);
  message.rest->recv(source, SlotOf(kBodies, message.tag));
  return source;
}

int Messages::Wait() {
  int source = -1;
  for (Receiving& message : receives_) source = Take(message);
  for (Receiving& message : receives_) {
    if (message.rest != nullptr) message.rest->waitRecv();
  }
  for (Sending& message : sends_) {
    message.first->waitSend();
    if (message.rest != nullptr) message.rest->waitSend();
  }
  return source;
}

}  // namespace twofold::gloo
