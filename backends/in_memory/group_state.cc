#include "backends/in_memory/group_state.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "backends/host/sleep.h"
#include "backends/in_memory/collectives.h"
#include "core/base/check.h"
#include "core/base/strings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace twofold::in_memory {

using host::WithBytes;

namespace {

using Kind = Communication::Kind;

constexpr int kPauses = 256, kYields = 32;  // some ten microseconds; yields, since there may be more ranks than cores
constexpr std::chrono::milliseconds kLook(20);

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <class Done>
bool SpinUntil(Done done) {
  for (int i = 0; i < kPauses; ++i) {
    if (done()) return true;
    Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (done()) return true;
    std::this_thread::yield();
  }
  return done();
}

}  // namespace

GroupState::GroupState(RunState& run, std::string name, std::vector<int> world_ranks, std::shared_ptr<Links> links)
    : run_(run),
      name_(std::move(name)),
      ranks_(std::move(world_ranks)),
      label_(host::GroupLabel(name_, ranks_)),
      links_(std::move(links)),
      free_(ranks_.size()),
      rendezvous_(size()),
      slots_(ranks_.size()) {}

// ---- Waiting ----

void GroupState::Signal(int rank) {
  slot(rank).signals.fetch_add(1, std::memory_order_release);
  slot(rank).changed.notify_one();
}

void GroupState::SignalAll() {
  for (int r = 0; r < size(); ++r) Signal(r);
  met_.notify_all();
}

// Releases the lock until this rank is signalled, or for some ten microseconds.
void GroupState::Spin(Lock& lock, Slot& slot) {
  const uint32_t before = slot.signals.load(std::memory_order_relaxed);
  lock.unlock();
  SpinUntil([&] { return slot.signals.load(std::memory_order_acquire) != before; });
  lock.lock();
}

template <class Done, class WhoIsMissing>
void GroupState::Await(Lock& lock, std::condition_variable& changed, int rank, const Call& call, Done done,
                       WhoIsMissing missing) {
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
  throw PeerLost(self, StrCat("rank ", self, ": group ", *label_, " is broken: ", broken_message_));
}

// ---- Collectives ----

void GroupState::ThrowIfVoid(int rank, const Call& call) {
  if (!rendezvous_.IsVoid(call.sequence)) return;
  Lock lock(mutex_);  // whoever voided the round holds it until it has said why
  ThrowIfBroken(rank);
  run_.ThrowIfEnding(world_rank(rank), call.ToString());
}

namespace {

// Announces a sleeper before it checks its reason to sleep.
class Sleeper {
 public:
  explicit Sleeper(std::atomic<int>& sleepers) : sleepers_(sleepers) { sleepers_.fetch_add(1); }
  ~Sleeper() { sleepers_.fetch_sub(1); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::atomic<int>& sleepers_;
};

}  // namespace

// Call after storing something that `reason` may depend on.
template <class Reason>
void GroupState::WakeSleepers(Reason reason) {
  if (sleepers_.load() == 0 || !reason()) return;
  Lock lock(mutex_);  // a sleeper has either checked before and is waiting by now, or will check later
  met_.notify_all();
}

void GroupState::Arrive(int rank, const Call& call) {
  rendezvous_.Arrive(rank, call.sequence, call);
  WakeSleepers([&] { return rendezvous_.AllArrived(call.sequence); });
}

void GroupState::Complete(int rank, const Call& call, Mover& mover) {
  if (!rendezvous_.HasArrived(rank, call.sequence)) {
    ThrowIfVoid(rank, call);  // a rank that has given up must not overwrite what others may still compare
    Arrive(rank, call);
  }
  try {
    AwaitArrivals(rank, call);
  } catch (const RankFailure& f) {
    // No rank may complete this collective with the operands of a rank that has given up.
    Lock lock(mutex_);
    // Cannot happen on GPUs, where each rank does its own share.
    if (!rendezvous_.VoidWhatIsLeft(call.sequence)) return;
    Break(f.kind(), rank, f.what());
    lock.unlock();
    LeaveShares(mover);
    throw;
  }
  const TravelPtr travel = links_ == nullptr ? nullptr : TravelOf(call);  // before operands may be released
  if (!mover.on_host()) {
    EnqueueShares(rank, call, mover);
  } else if (call.communication.kind != Kind::kBarrier) {
    DoShares(rank, call, mover);
    ThrowIfVoid(rank, call);
  }
  if (links_ != nullptr) AwaitArrival(rank, call, std::array{std::pair(travel, rank)});
}

// ---- Slowed links ----

namespace {

sim::CollectiveShape ShapeOf(const Round& round, const Communication& c) {
  sim::CollectiveShape shape{
      c.kind, round.size(), static_cast<double>(c.bytes().value()), host::Rooted(c.kind) ? c.peer : 0, {}};
  if (c.kind == Kind::kGather || c.kind == Kind::kScatter) {  // ranks other than the root know the size of their part
    shape.bytes = static_cast<double>((c.kind == Kind::kGather ? c.in : c.out).bytes().value()) * round.size();
  }
  for (int r = 0; c.kind == Kind::kAllToAllV && r < round.size(); ++r) {
    auto& row = shape.matrix.emplace_back();
    for (const int64_t count : round[r].call->communication.in_counts) {
      row.push_back(static_cast<double>(count * ElementSize(c.in.dtype())));
    }
  }
  return shape;
}

}  // namespace

// Call once all ranks have arrived. The first caller starts the collective's transfer.
TravelPtr GroupState::TravelOf(const Call& call) {
  const Round round(rendezvous_, call.sequence);
  std::lock_guard lock(travels_mutex_);
  InFlight& flight = travels_[call.sequence];
  if (flight.travel == nullptr) {
    double start = 0;
    for (int r = 0; r < size(); ++r) start = std::max({start, round[r].issued, free_[static_cast<size_t>(r)]});
    flight = {links_->Collective(ShapeOf(round, call.communication), ranks_, start), size()};
  }
  const TravelPtr travel = flight.travel;
  if (--flight.unasked == 0) travels_.erase(call.sequence);
  return travel;
}

// Later transfers may delay the arrival.
void GroupState::AwaitArrival(int rank, const Call& call, std::span<const std::pair<TravelPtr, int>> travels) {
  double arrival = 0;
  while (true) {
    double forecast = call.issued;
    for (const auto& [travel, place] : travels) forecast = std::max(forecast, links_->Arrival(*travel, place));
    if (forecast <= arrival) break;
    arrival = forecast;
    host::SleepUntil(run_.Steady(arrival), [&] {
      if (run_.ending()) run_.ThrowIfEnding(world_rank(rank), call.ToString());
    });
  }
  call.finished = arrival;
  std::lock_guard lock(travels_mutex_);
  free_[static_cast<size_t>(rank)] = arrival;
}

// Returns when all ranks have arrived with equal calls.
void GroupState::AwaitArrivals(int rank, const Call& call) {
  auto all_arrived = [&] { return rendezvous_.AllArrived(call.sequence); };
  if (!SpinUntil(all_arrived)) {
    Lock lock(mutex_);
    const Sleeper sleeper(sleepers_);
    Await(lock, met_, rank, call, all_arrived, [&] { return CompareArrived(rank, call); });
  }
  const Round round(rendezvous_, call.sequence);
  const Signature& own = round[rank].signature;
  bool equal = true;
  for (int r = 0; r < size(); ++r) equal = equal && round[r].signature == own;
  if (equal && own.kind != Kind::kAllToAllV) return;
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  CompareArrived(rank, call);
  CompareCounts(rank, call);
}

// Returns the ranks that have not arrived; throws if an arrived rank's call differs. Arrived ranks' calls stay valid
// meanwhile: a round with differing calls is never over, and a rank that gives up first breaks the group. That needs
// the lock, which is held here.
GroupState::Missing GroupState::CompareArrived(int rank, const Call& call) {
  const Round round(rendezvous_, call.sequence);
  Missing missing;
  for (int r = 0; r < size(); ++r) {
    if (!rendezvous_.HasArrived(r, call.sequence)) {
      missing.ranks.push_back(r);
    } else if (!(round[r].signature == round[rank].signature)) {
      Mismatch(r, WithBytes(round[r].call->communication), rank, WithBytes(call.communication),
               StrCat("collective ", call.sequence));
    }
  }
  return missing;
}

// Checks that this rank of an all_to_all_v is sent what it expects.
void GroupState::CompareCounts(int rank, const Call& call) {
  const Round round(rendezvous_, call.sequence);
  for (int from = 0; from < size(); ++from) {
    const int64_t sent = round[from].call->communication.in_counts[static_cast<size_t>(rank)];
    const int64_t expected = call.communication.out_counts[static_cast<size_t>(from)];
    if (sent == expected) continue;
    Mismatch(from, StrCat("all_to_all_v sending ", sent, " elements to rank ", rank, " of the group"), rank,
             StrCat("all_to_all_v expecting ", expected, " elements from rank ", from, " of the group"),
             StrCat("collective ", call.sequence));
  }
}

// Does the rank's own share; then, in a small collective, the shares of ranks that have arrived and gone on to
// something else. When it returns, no operand is in use any more. Does not throw: a rank that has claimed a share does
// it.
void GroupState::DoShares(int rank, const Call& call, Mover& mover) {
  const uint64_t number = call.sequence;
  auto over = [&] { return rendezvous_.IsOver(number); };
  auto do_share = [&](int share) {
    if (!rendezvous_.Claim(share, number)) return;
    DoShare(Round(rendezvous_, number), call.communication, share, mover);
    rendezvous_.Finish(share, number);
  };
  do_share(rank);
  if (IsSmall(call.communication)) {
    for (int i = 0; i < kPauses && !over(); ++i) Pause();
    for (int i = 1; i < size() && !over(); ++i) do_share((rank + i) % size());
    while (!over()) std::this_thread::yield();  // another rank is doing it
    return;
  }
  AwaitOver(number);
}

// Call after a share was finished or voided.
void GroupState::AwaitOver(uint64_t number) {
  auto over = [&] { return rendezvous_.IsOver(number); };
  WakeSleepers(over);
  if (SpinUntil(over)) return;
  Lock lock(mutex_);
  const Sleeper sleeper(sleepers_);
  while (!met_.wait_for(lock, kLook, over)) {  // also polls, like every wait here
  }
}

// For GPUs. A barrier has (empty) shares, too: work behind it on any compute stream must come after the work before it
// on all.
void GroupState::EnqueueShares(int rank, const Call& call, Mover& mover) {
  const uint64_t number = call.sequence;
  if (rendezvous_.Claim(rank, number)) {
    const Round round(rendezvous_, number);
    try {
      for (int r = 0; r < size(); ++r) mover.WaitFor(round[r].call->after);
      DoShare(round, call.communication, rank, mover);
      slot(rank).share = mover.Record();
    } catch (const std::exception& e) {  // before others see that the round is void:
      run_.Fail(world_rank(rank), RankFailure::Kind::kOther,
                StrCat("rank ", world_rank(rank), ": ", call.ToString(), ": ", e.what()));
      rendezvous_.Void(rank, number);
      AwaitOver(number);
      LeaveShares(mover);
      throw;
    }
    rendezvous_.Finish(rank, number);
  }
  AwaitOver(number);
  if (rendezvous_.IsVoid(number)) {
    LeaveShares(mover);
    ThrowIfVoid(rank, call);
  }
  for (const Slot& s : slots_) mover.WaitFor(s.share);
}

// For a round that is over and has failed: returns when no enqueued share is still running.
void GroupState::LeaveShares(Mover& mover) {
  try {
    for (const Slot& s : slots_) mover.WaitFor(s.share);
    mover.Finish();
  } catch (const std::exception&) {  // the GPU has failed and stopped; the exception in flight says more
  }
}

void GroupState::Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b,
                          const std::string& where) {
  const std::string message = host::MismatchText(*label_, where, world_rank(rank_a), a, world_rank(rank_b), b);
  Break(RankFailure::Kind::kCollectiveMismatch, rank_b, message);
  throw CollectiveMismatch(world_rank(rank_b), message);
}

// ---- Messages ----

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
      Spin(lock, own);
      Await(
          lock, own.split_done, rank, call, [&] { return split_requests_ >= complete; },
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
    auto group = std::make_shared<GroupState>(run_, slot(ranks[0]).request.name, world_ranks, links_);
    for (size_t i = 0; i < ranks.size(); ++i) slot(ranks[i]).membership = {group, static_cast<int>(i)};
  }
}

}  // namespace twofold::in_memory
