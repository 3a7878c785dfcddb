#include "backends/in_memory/group_state.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace twofold::in_memory {

using host::SameCollective;
using host::WithBytes;

namespace {

using Kind = Communication::Kind;

constexpr int kPauses = 64, kYields = 32;  // some ten microseconds; yields, as there may be more ranks than cores
constexpr std::chrono::milliseconds kLook(20);

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

GroupState::GroupState(RunState& run, std::string name, std::vector<int> world_ranks)
    : run_(run),
      name_(std::move(name)),
      ranks_(std::move(world_ranks)),
      label_(host::GroupLabel(name_, ranks_)),
      slots_(ranks_.size()) {}

// ---- Waiting ----

void GroupState::Signal(int rank) {
  slot(rank).signals.fetch_add(1, std::memory_order_release);
  slot(rank).changed.notify_one();
}

void GroupState::SignalAll() {
  for (int r = 0; r < size(); ++r) Signal(r);
}

// Gives the lock away until this rank is signalled, or for some ten microseconds.
void GroupState::Spin(Lock& lock, Slot& slot) {
  const uint32_t before = slot.signals.load(std::memory_order_relaxed);
  auto signalled = [&] { return slot.signals.load(std::memory_order_acquire) != before; };
  lock.unlock();
  for (int i = 0; i < kPauses && !signalled(); ++i) Pause();
  for (int i = 0; i < kYields && !signalled(); ++i) std::this_thread::yield();
  lock.lock();
}

template <class Done, class WhoIsMissing>
void GroupState::Await(Lock& lock, std::condition_variable& changed, int rank, const Call& call, Done done,
                       WhoIsMissing missing) {
  if (done()) return;
  Spin(lock, slot(rank));
  const double started = run_.Now();
  while (!done()) {
    ThrowIfBroken(rank);
    ThrowIfHopeless(rank, call, missing(), started);
    changed.wait_for(lock, kLook);
  }
}

void GroupState::ThrowIfHopeless(int rank, const Call& call, const Missing& missing, double started) const {
  const int self = world_rank(rank);
  if (run_.ending()) run_.ThrowIfEnding(self, call.ToString());
  auto left = [this](int r) { return run_.HasLeft(world_rank(r)); };
  const auto lost = std::find_if(missing.ranks.begin(), missing.ranks.end(), left);
  if (missing.any ? std::all_of(missing.ranks.begin(), missing.ranks.end(), left) : lost != missing.ranks.end()) {
    throw PeerLost(self, StrCat("rank ", self, ": lost rank ", world_rank(*lost), " in ", call.ToString(),
                                      ": its function has returned"));
  }
  if (run_.Now() - started < run_.timeout_s()) return;
  std::string waited_for;
  for (int r : missing.ranks) StrAppend(&waited_for, waited_for.empty() ? "" : "; ", run_.Doing(world_rank(r)));
  throw TimedOut(self, StrCat("rank ", self, ": ", call.ToString(), " has waited ", run_.timeout_s(),
                                    " s (fabric.timeout_s) for ", missing.any ? "any of " : "", waited_for));
}

void GroupState::Break(RankFailure::Kind kind, int rank, std::string message) {
  if (broken_) return;
  broken_ = true;
  broken_kind_ = kind;
  broken_message_ = message;
  run_.Fail(world_rank(rank), kind, std::move(message));
  SignalAll();
}

void GroupState::ThrowIfBroken(int rank) const {
  if (!broken_) return;
  const int self = world_rank(rank);
  if (broken_kind_ == RankFailure::Kind::kCollectiveMismatch) throw CollectiveMismatch(self, broken_message_);
  run_.ThrowIfEnding(self, StrCat("group ", *label_));
  throw PeerLost(self, StrCat("rank ", self, ": group ", *label_, " has broken: ", broken_message_));
}

// ---- Collectives ----

std::vector<const Call*> GroupState::Meet(int rank, const Call& call) {
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  Slot& own = slot(rank);
  if (arrivals_ % static_cast<uint64_t>(size()) == 0) first_ = rank;
  else CompareCalls(rank, call);
  own.posted = &call;
  ++arrivals_;
  const uint64_t complete = ++own.rounds * static_cast<uint64_t>(size());
  if (arrivals_ == complete) {
    CompareCounts();
    SignalAll();
  } else {
    try {
      Await(lock, own.changed, rank, call, [&] { return arrivals_ >= complete; },
            [&] {
              Missing missing;
              for (int r = 0; r < size(); ++r) {
                if (slot(r).rounds < own.rounds) missing.ranks.push_back(r);
              }
              return missing;
            });
      ThrowIfBroken(rank);  // the last to arrive found the counts to differ
    } catch (const RankFailure& f) {
      // Nobody may complete this collective with the operands of a rank that has given up.
      Break(f.kind(), rank, f.what());
      throw;
    }
  }
  std::vector<const Call*> calls;
  for (const Slot& s : slots_) calls.push_back(s.posted);
  return calls;
}

void GroupState::Part(int rank) {
  Lock lock(mutex_);
  Slot& own = slot(rank);
  const uint64_t complete = own.rounds * static_cast<uint64_t>(size());
  if (++departures_ == complete) return SignalAll();
  Spin(lock, own);
  own.changed.wait(lock, [&] { return departures_ >= complete; });
}

void GroupState::CompareCalls(int rank, const Call& call) {
  const Communication &a = slot(first_).posted->communication, &b = call.communication;
  if (SameCollective(a, b)) return;
  Mismatch(first_, WithBytes(a), rank, WithBytes(b), StrCat("collective ", call.sequence));
}

void GroupState::CompareCounts() {
  if (slot(0).posted->communication.kind != Kind::kAllToAllV) return;
  for (int to = 0; to < size(); ++to) {
    for (int from = 0; from < size(); ++from) {
      const int64_t sent = slot(from).posted->communication.in_counts[static_cast<size_t>(to)];
      const int64_t expected = slot(to).posted->communication.out_counts[static_cast<size_t>(from)];
      if (sent == expected) continue;
      Mismatch(from, StrCat("all_to_all_v sending ", sent, " elements to rank ", to, " of the group"), to,
               StrCat("all_to_all_v expecting ", expected, " elements from rank ", from, " of the group"),
               StrCat("collective ", slot(to).posted->sequence));
    }
  }
}

void GroupState::Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b, const std::string& where) {
  const std::string message = host::MismatchText(*label_, where, world_rank(rank_a), a, world_rank(rank_b), b);
  Break(RankFailure::Kind::kCollectiveMismatch, rank_b, message);
  throw CollectiveMismatch(world_rank(rank_b), message);
}

// ---- Messages ----

void GroupState::Exchange(int rank, const Call& call, std::span<Message> messages) {
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
      TakeMessages(lock, rank, call, messages);
      if (all_done()) return;
      Await(lock, own.changed, rank, call,
            [&] { return all_done() || own.signals.load(std::memory_order_relaxed) != seen; },
            [&] { return MissingPeers(messages, rank); });
    }
  } catch (const RankFailure&) {
    Withdraw(lock, rank, messages);
    throw;
  }
}

// Copies what has arrived for the receives among `messages`, in their order. Lets go of the lock while it copies.
void GroupState::TakeMessages(Lock& lock, int rank, const Call& call, std::span<Message> messages) {
  for (Message& m : messages) {
    if (m.kind != P2p::kRecv || m.state == Message::kDone) continue;
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
    sent.state = Message::kCopying;
    lock.unlock();
    if (m.bytes > 0) std::memcpy(m.data, sent.data, static_cast<size_t>(m.bytes));
    lock.lock();
    m.source = sender;
    m.state = sent.state = Message::kDone;  // `sent` may be gone once the lock is
    Signal(sender);
  }
}

// Before an exception leaves: nobody may take a message from memory that is about to go.
void GroupState::Withdraw(Lock& lock, int rank, std::span<Message> messages) {
  for (Message& m : messages) {
    if (m.kind != P2p::kSend) continue;
    if (m.state == Message::kPosted) {
      std::erase_if(slot(m.peer).mailbox, [&](const Offer& o) { return o.message == &m; });
    }
    slot(rank).changed.wait(lock, [&] { return m.state != Message::kCopying; });
  }
}

GroupState::Missing GroupState::MissingPeers(std::span<const Message> messages, int rank) const {
  Missing missing;
  const bool named = std::any_of(messages.begin(), messages.end(), [](const Message& m) {
    return m.state != Message::kDone && m.peer != kAnySource;
  });
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

// ---- Splits ----

GroupState::Membership GroupState::Split(int rank, const Call& call, int color, int key, std::string name) {
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  Slot& own = slot(rank);
  own.request = {color, key, std::move(name)};
  const uint64_t complete = ++own.splits * static_cast<uint64_t>(size());
  if (++split_requests_ == complete) {
    MakeGroups();
    for (Slot& s : slots_) s.split_done.notify_one();
  } else {
    try {
      Await(lock, own.split_done, rank, call, [&] { return split_requests_ >= complete; },
            [&] {
              Missing missing;
              for (int r = 0; r < size(); ++r) {
                if (slot(r).splits < own.splits) missing.ranks.push_back(r);
              }
              return missing;
            });
    } catch (const RankFailure& f) {
      Break(f.kind(), rank, f.what());
      throw;
    }
  }
  return std::exchange(own.membership, {});
}

void GroupState::MakeGroups() {
  std::map<int, std::vector<int>> members;  // by color
  for (int r = 0; r < size(); ++r) {
    if (slot(r).request.color >= 0) members[slot(r).request.color].push_back(r);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [this](int a, int b) { return slot(a).request.key < slot(b).request.key; });
    std::vector<int> world_ranks;
    for (int r : ranks) world_ranks.push_back(world_rank(r));
    auto group = std::make_shared<GroupState>(run_, slot(ranks[0]).request.name, world_ranks);
    for (size_t i = 0; i < ranks.size(); ++i) slot(ranks[i]).membership = {group, static_cast<int>(i)};
  }
}

}  // namespace twofold::in_memory
