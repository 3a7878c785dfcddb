// Messages between ranks of a group: each is left in its receiver's mailbox, and copied once, by the receiver.
#include <algorithm>
#include <utility>

#include "backends/in_memory/group_state.h"
#include "backends/in_memory/group_waiting.h"
#include "core/base/strings.h"

namespace twofold::in_memory {

void GroupState::Exchange(int rank, const Call& call, std::span<Message> messages, Mover& mover) {
  if (links_ != nullptr) {
    std::lock_guard lock(travels_mutex_);
    for (Message& m : messages) m.ready = std::max(call.issued, free_[static_cast<size_t>(rank)]);
  }
  ExchangeAtOnce(rank, call, messages, mover);
  for (const Message& m : messages) mover.WaitFor(m.copied);
  if (links_ == nullptr) return;
  std::vector<std::pair<TravelPtr, int>> travels;
  for (const Message& m : messages) travels.emplace_back(m.travel, m.kind == P2p::kRecv ? 1 : 0);
  AwaitArrival(rank, call, travels);
}

void GroupState::ExchangeAtOnce(int rank, const Call& call, std::span<Message> messages, Mover& mover) {
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  for (Message& m : messages) {
    if (m.kind != P2p::kSend) continue;
    slot(m.peer).mailbox.push_back({&m, rank});
    Signal(m.peer);
  }
  try {
    auto all_done = [&] {
      return std::all_of(messages.begin(), messages.end(), [](const Message& m) { return m.state == Message::kDone; });
    };
    Slot& own = slot(rank);
    while (true) {
      const uint32_t seen = own.signals.load(std::memory_order_relaxed);
      TakeMessages(lock, rank, call, messages, mover);
      if (all_done()) return;
      Spin(lock, own);
      Await(
          lock, own.changed, rank, call,
          [&] { return all_done() || own.signals.load(std::memory_order_relaxed) != seen; },
          [&] { return MissingPeers(messages, rank); });
    }
  } catch (const std::exception&) {
    Withdraw(lock, rank, messages, mover);
    throw;
  }
}

// Copies arrived messages for the receives among `messages`. Releases the lock while it copies: messages that arrive
// then are for the first receive that they fit, which may have been passed already.
void GroupState::TakeMessages(Lock& lock, int rank, const Call& call, std::span<Message> messages, Mover& mover) {
  for (size_t i = 0; i < messages.size(); ++i) {
    Message& m = messages[i];
    if (m.kind != P2p::kRecv || m.state == Message::kDone) continue;
    const auto comes_first = [&m](const Message& o) {
      return o.kind == P2p::kRecv && o.state != Message::kDone && o.tag == m.tag &&
             (o.peer == m.peer || o.peer == kAnySource || m.peer == kAnySource);
    };
    if (std::ranges::any_of(messages.first(i), comes_first)) continue;
    std::deque<Offer>& mailbox = slot(rank).mailbox;
    const auto offer = std::find_if(mailbox.begin(), mailbox.end(), [&](const Offer& o) {
      return o.message->tag == m.tag && (m.peer == kAnySource || m.peer == o.sender);
    });
    if (offer == mailbox.end()) continue;
    Message& sent = *offer->message;
    const int sender = offer->sender;
    if (sent.bytes != m.bytes) {
      Mismatch(sender, StrCat("send of ", sent.bytes, " bytes, tag ", m.tag), rank,
               StrCat("recv of ", m.bytes, " bytes, tag ", m.tag), StrCat("message ", call.sequence));
    }
    mailbox.erase(offer);
    Copy(lock, sent, sender, m, mover);
    m.source = sender;
    if (links_ != nullptr) {
      const double ready = std::max(m.ready, sent.ready), bytes = static_cast<double>(m.bytes);
      m.travel = sent.travel = links_->Message(world_rank(sender), world_rank(rank), bytes, ready);
    }
    m.state = sent.state = Message::kDone;  // `sent` may be gone once the lock is released
    Signal(sender);
  }
}

void GroupState::Copy(Lock& lock, Message& sent, int sender, Message& m, Mover& mover) {
  sent.state = Message::kCopying;
  lock.unlock();
  try {
    if (sent.after != nullptr) mover.WaitFor(*sent.after);
    mover.Copy(m.data, sent.data, m.bytes);
    m.copied = sent.copied = mover.Record();
  } catch (const std::exception&) {
    lock.lock();
    sent.state = Message::kPosted;  // stays so: the run is about to fail
    Signal(sender);
    throw;
  }
  lock.lock();
}

// Call before an exception leaves: no rank may take a message from memory that is about to be freed.
void GroupState::Withdraw(Lock& lock, int rank, std::span<Message> messages, Mover& mover) {
  for (Message& m : messages) {
    if (m.kind != P2p::kSend) continue;
    if (m.state == Message::kPosted) {
      std::erase_if(slot(m.peer).mailbox, [&](const Offer& o) { return o.message == &m; });
    }
    slot(rank).changed.wait(lock, [&] { return m.state != Message::kCopying; });
  }
  if (mover.on_host()) return;
  lock.unlock();
  try {
    for (const Message& m : messages) mover.WaitFor(m.copied);
    mover.Finish();
  } catch (const std::exception&) {  // as in LeaveShares
  }
}

GroupState::Missing GroupState::MissingPeers(std::span<const Message> messages, int rank) const {
  Missing missing;
  const bool named = std::any_of(messages.begin(), messages.end(),
                                 [](const Message& m) { return m.state != Message::kDone && m.peer != kAnySource; });
  if (named) {
    for (const Message& m : messages) {
      if (m.state == Message::kPosted && m.peer != kAnySource) missing.ranks.push_back(m.peer);
    }
    return missing;
  }
  missing.any = true;
  for (int r = 0; r < size(); ++r) {
    if (r != rank) missing.ranks.push_back(r);
  }
  return missing;
}

}  // namespace twofold::in_memory
