#include "backends/host/queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::host {

namespace {
constexpr int kPatience = 1000;  // number of tests before the thread takes over
}

// ---- Item ----

void Item::DoneEvent::Wait() {
  if (!Done()) item_.queue_->Await(item_, Queue::kPosted);
  if (item_.done()) item_.ThrowIfFailed();
}

std::string_view Item::StreamOf(const Queue& queue) { return queue.stream_name_; }

double Item::DoneEvent::time() const { return item_.end_ == 0 ? 0 : item_.owner_->run.Steady(item_.end_); }

void Item::Wait() {
  WaitOn(owner_->device.compute());
  if (done()) return;
  queue_->Await(*this, Queue::kDone);
  ThrowIfFailed();
}

// Records what the compute stream waits for, if tracing is enabled.
void Item::WaitOn(Stream& stream) {
  if (&stream != &owner_->device.compute() || !owner_->trace.enabled()) return Order(stream);
  owner_->waits_for = stream_;
  const absl::Cleanup no_more = [this] { owner_->waits_for = {}; };
  const Seconds before = stream.stalled();
  Order(stream);
  if (owner_->tells_waits) return;
  const Seconds stood = stream.stalled() - before,
                end(owner_->emulated != nullptr && end_ > 0 ? end_ : owner_->run.Now());
  if (stood > Seconds(0)) owner_->trace.AddStall({std::string(stream_), end - stood, end});
}

void Item::Order(Stream& stream) {
  if (!done() || owner_->emulated != nullptr) {  // an emulated device's line may be behind calls that are over
    const Seconds before = quiet_ ? stream.stalled() : Seconds();
    stream.WaitFor(Event(std::shared_ptr<Event::State>(shared_from_this(), &event_)));
    if (timed_by_host_) entry_.seconds.fetch_add((stream.stalled() - before).value(), std::memory_order_relaxed);
  }
  if (done()) {
    stream.WaitFor(Event());  // as if it were not yet: what a stream keeps for a graph must not depend on time
    return ThrowIfFailed();
  }
  stream.WaitFor(on_device_);
}

bool Item::Test() {
  if (done() || !quiet_) return done();
  queue_->Settle();
  // A host that keeps testing must not be the one that has to find out that its peers are gone.
  if (!done() && ++tests_ == kPatience) queue_->LeaveToThread();
  return done();
}

size_t Item::WaitAny(std::span<Work::State* const> states) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i]->Test()) return i;
  }
  for (Work::State* s : states) {  // the host will sleep now
    auto* item = static_cast<Item*>(s);
    if (item->quiet_ && !item->done()) item->queue_->LeaveToThread();
  }
  std::unique_lock lock(owner_->mutex);
  while (true) {
    for (size_t i = 0; i < states.size(); ++i) {
      if (static_cast<Item*>(states[i])->done()) return i;
    }
    if (owner_->abandoned) owner_->run.ThrowIfEnding(owner_->rank, call_->ToString());
    owner_->done.wait(lock);
  }
}

void Item::ThrowIfFailed() const {
  if (failure_) ThrowFailure(failure_->kind, owner_->rank, failure_->message);
}

void Abandon(RankState& rank) {
  {
    std::lock_guard lock(rank.mutex);
    rank.abandoned = true;
  }
  rank.done.notify_all();
}

void AwaitPosted(RankState& rank) {
  constexpr std::chrono::milliseconds kLook(20);
  std::unique_lock lock(rank.mutex);
  while (rank.posted > 0 && !rank.abandoned && !rank.run.ending()) rank.done.wait_for(lock, kLook);
}

// ---- Queue ----

std::shared_ptr<Item> Queue::Push(std::shared_ptr<const Call> call, Tensor workspace,
                                  CommunicationStats::Entry& entry) {
  auto item = std::make_shared<Item>(owner_, this, std::move(call), std::move(workspace), entry, false);
  Hand(item);
  return item;
}

std::shared_ptr<Item> Queue::PushPosted(std::shared_ptr<const Call> call, Event end, CommunicationStats::Entry& entry) {
  auto item = std::make_shared<Item>(owner_, this, std::move(call), Tensor(), entry, false);
  item->on_device_ = std::move(end);
  item->posted_.store(true, std::memory_order_release);
  {
    std::lock_guard lock(owner_->mutex);
    ++owner_->posted;
  }
  Hand(item);
  return item;
}

// Hands the item to the thread.
void Queue::Hand(const std::shared_ptr<Item>& item) {
  bool tell = true;
  {
    std::lock_guard lock(owner_->mutex);
    Append(item);
    StartThread();
    tell = !looking_;
  }
  if (tell) wake_.notify_one();
}

std::shared_ptr<Item> Queue::PushQuietly(std::shared_ptr<const Call> call, CommunicationStats::Entry& entry) {
  auto item = std::make_shared<Item>(owner_, this, std::move(call), Tensor(), entry, true);
  std::lock_guard lock(owner_->mutex);
  TWOFOLD_CHECK(Idle(), "a quiet call needs an empty queue");
  Append(item);
  return item;
}

// Call with the lock held.
void Queue::Append(std::shared_ptr<Item> item) {
  TWOFOLD_CHECK(!closing_, "a group issues nothing while it is destroyed");
  pending_.push_back(std::move(item));
  ++pushed_;
  unfinished_.store(unfinished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Queue::Post(Item& item, Event end) {
  {
    std::lock_guard lock(owner_->mutex);
    item.on_device_ = std::move(end);
    if (!item.posted_.exchange(true, std::memory_order_acq_rel)) ++owner_->posted;
  }
  owner_->done.notify_all();
}

void Queue::Await(Item& item, Until until) {
  std::unique_lock lock(owner_->mutex);
  while (!item.done() && !(until == kPosted && item.posted())) {
    if (owner_->abandoned) owner_->run.ThrowIfEnding(owner_->rank, item.call_->ToString());
    if (busy_ || pending_.empty() || start_ == kAlone) {
      owner_->done.wait(lock);
      continue;
    }
    // Reading the clock costs as much as the rest of a small call, and the waiting stream reads it anyway.
    item.timed_by_host_ =
        item.quiet_ && owner_->emulated == nullptr && pending_.front().get() == &item && !owner_->trace.enabled();
    DoFront(lock, true);
  }
}

bool Queue::Settle() {
  if (Idle()) return true;
  std::unique_lock lock(owner_->mutex);
  if (!busy_ && !pending_.empty() && pending_.front()->quiet_ && ready_(*pending_.front()->call_)) DoFront(lock, true);
  return Idle();
}

void Queue::LeaveToThread() {
  {
    std::lock_guard lock(owner_->mutex);
    StartThread();
  }
  wake_.notify_one();
}

// Call with the lock held. The caller must notify a thread that is already running.
void Queue::StartThread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
}

bool Queue::Close() {
  {
    std::unique_lock lock(owner_->mutex);
    closing_ = true;
    if (!pending_.empty()) StartThread();
    wake_.notify_one();
    owner_->done.wait(lock, [this] { return owner_->abandoned || (!busy_ && pending_.empty()); });
    if (busy_ || !pending_.empty()) return false;
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

void Queue::Loop() {
  std::unique_lock lock(owner_->mutex);
  while (true) {
    if (start_ == kLooks) Look(lock);
    wake_.wait(lock, [this] { return HasWork(); });
    if (pending_.empty()) return;
    DoFront(lock, false);
  }
}

// Polls until there is work, or no call has come for a while.
void Queue::Look(std::unique_lock<std::mutex>& lock) {
  looking_ = true;
  uint64_t seen = pushed_;
  std::chrono::microseconds look = kLook;
  for (int in_vain = 0; in_vain < kLooksInVain && !closing_; ++in_vain) {
    wake_.wait_for(lock, look);
    look = busy_ ? std::min(2 * look, kLongLook) : kLook;
    if (HasWork()) break;
    if (std::exchange(seen, pushed_) != pushed_) in_vain = 0;
  }
  looking_ = false;
}

// Call with the lock held; it is held again on return.
void Queue::DoFront(std::unique_lock<std::mutex>& lock, bool on_host) {
  const std::shared_ptr<Item> item = std::move(pending_.front());
  pending_.pop_front();
  busy_ = true;
  if (on_host) owner_->host_in_call = true;
  lock.unlock();
  Do(*item);
  lock.lock();
  busy_ = false;
  if (on_host) owner_->host_in_call = false;
  if (item->posted()) --owner_->posted;
  unfinished_.store(unfinished_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  item->done_.store(true, std::memory_order_release);
  owner_->done.notify_all();
  if (closing_ || (!pending_.empty() && !looking_)) wake_.notify_one();
}

void Queue::Do(Item& item) {
  RunState& run = owner_->run;
  const Communication& c = item.call_->communication;
  double start = item.timed_by_host_ ? 0 : run.Now();
  current_ = &item;
  run.Begin(owner_->rank, item.call_);
  try {
    std::span<std::byte> workspace;
    if (const Tensor& t = item.workspace_; !t.empty()) {
      workspace = {static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.bytes().value())};
    }
    item.source_ = execute_(item.call_, workspace);
  } catch (const RankFailure& f) {
    item.failure_ = {f.kind(), f.what()};
  } catch (const std::exception& e) {
    item.failure_ = {RankFailure::Kind::kOther,
                     StrCat("rank ", owner_->rank, ": ", item.call_->ToString(), ": ", e.what())};
  }
  run.End(owner_->rank, item.call_);
  if (item.failure_) run.Fail(owner_->rank, item.failure_->kind, item.failure_->message);
  if (item.timed_by_host_) return;
  const bool paced = item.call_->finished > 0;  // the thread may have woken a little late, before and after it
  const double end = paced ? item.call_->finished : run.Now();
  if (paced) start = std::max(item.call_->issued, std::exchange(paced_until_, end));
  start = std::max(start, item.call_->began);
  item.end_ = end;
  item.entry_.seconds.fetch_add(end - start, std::memory_order_relaxed);
  if (item.call_->split || !owner_->trace.enabled()) return;
  owner_->trace.Add({.stream = std::string(stream_name_),
                     .name = std::string(KindName(c.kind)),
                     .start = Seconds(start),
                     .end = Seconds(end),
                     .bytes = c.bytes(),
                     .label = std::string(item.label_)});
}

}  // namespace twofold::host
