#include "backends/host/queue.h"

#include <exception>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::host {

// ---- Item ----

class Item::DoneEvent : public Event::State {
 public:
  explicit DoneEvent(std::shared_ptr<Item> item) : item_(std::move(item)) {}
  bool Done() override { return item_->Test(); }
  void Wait() override {
    item_->queue_->Await(*item_);
    item_->ThrowIfFailed();
  }

 private:
  std::shared_ptr<Item> item_;
};

void Item::Wait() { WaitOn(owner_->device.compute()); }

void Item::WaitOn(Stream& stream) {
  if (!Test()) stream.WaitFor(Event(std::make_shared<DoneEvent>(shared_from_this())));
  ThrowIfFailed();
}

size_t Item::WaitAny(std::span<Work::State* const> states) {
  std::unique_lock lock(owner_->mutex);
  while (true) {
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i]->Test()) return i;
    }
    if (owner_->abandoned) owner_->run.ThrowIfEnding(owner_->rank, call_->ToString());
    owner_->done.wait(lock);
  }
}

void Item::ThrowIfFailed() const {
  if (failure_) Throw(failure_->kind, owner_->rank, failure_->message);
}

void Abandon(RankState& rank) {
  {
    std::lock_guard lock(rank.mutex);
    rank.abandoned = true;
  }
  rank.done.notify_all();
}

// ---- Queue ----

std::shared_ptr<Item> Queue::Push(std::shared_ptr<const Call> call, Tensor workspace, CommunicationStats::Entry& entry) {
  auto item = std::make_shared<Item>(owner_, this, std::move(call), std::move(workspace), entry);
  {
    std::lock_guard lock(owner_->mutex);
    TWOFOLD_CHECK(!closing_, "a group issues nothing while it is destroyed");
    pending_.push_back(item);
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  wake_.notify_one();
  return item;
}

void Queue::Await(Item& item) {
  std::unique_lock lock(owner_->mutex);
  while (!item.Test()) {
    if (owner_->abandoned) owner_->run.ThrowIfEnding(owner_->rank, item.call_->ToString());
    if (!busy_ && !pending_.empty()) DoFront(lock, true);
    else owner_->done.wait(lock);
  }
}

bool Queue::Idle() {
  std::lock_guard lock(owner_->mutex);
  return !busy_ && pending_.empty();
}

bool Queue::Close() {
  {
    std::unique_lock lock(owner_->mutex);
    closing_ = true;
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
    wake_.wait(lock, [this] { return !busy_ && (closing_ || !pending_.empty()); });
    if (pending_.empty()) return;
    DoFront(lock, false);
  }
}

// Entered and left with the lock held.
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
  item->done_.store(true, std::memory_order_release);
  owner_->done.notify_all();
  if (closing_ || !pending_.empty()) wake_.notify_one();
}

void Queue::Do(Item& item) {
  RunState& run = owner_->run;
  const Communication& c = item.call_->communication;
  const double start = run.Now();
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
    item.failure_ = {RankFailure::Kind::kOther, StrCat("rank ", owner_->rank, ": ", e.what())};
  }
  run.End(owner_->rank, item.call_);
  if (item.failure_) run.Fail(owner_->rank, item.failure_->kind, item.failure_->message);
  const double end = run.Now();
  item.entry_.seconds.fetch_add(end - start, std::memory_order_relaxed);
  if (item.call_->split || !owner_->trace.enabled()) return;
  owner_->trace.Add({.stream = stream_name_,
                     .name = std::string(KindName(c.kind)),
                     .start = Seconds(start),
                     .end = Seconds(end),
                     .bytes = c.bytes()});
}

}  // namespace twofold::host
