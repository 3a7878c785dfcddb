// The stream of one group at one rank: calls in the order issued, done by a communication thread of its own, so that they
// overlap with what the host computes. A host that waits does the next call itself when the thread has not begun it; calls
// that cost less than waking the thread are left to the host.
//
// Where a device has streams, the thread has a call's work done by one of them. From when it has given it all that it needs, a
// stream of the device waits for the call without the host; before that a wait needs the host, for who else could say what to wait
// for. The call is done, and the thread goes on to the next, when the stream is through with it. A host that gives the stream its
// work itself pushes a call that is on the device already; the thread then only waits for its end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "backends/host/emulated_device.h"
#include "backends/host/run_state.h"
#include "core/comm/stats.h"
#include "core/comm/work.h"
#include "core/device/device.h"
#include "core/run/trace.h"

namespace twofold::host {

// What the queues of one rank share; on cache lines of its own, as ranks write to theirs at every call.
struct alignas(128) RankState {
  RunState& run;
  int rank;
  Device& device;
  Trace& trace;
  std::mutex mutex;              // guards all of the rank's queues
  std::condition_variable done;  // some call of some queue is done
  // Both under `mutex`, for fabrics whose blocking calls nothing can interrupt: what hangs in one is left where it is.
  bool abandoned = false;     // the run has failed: nobody waits any more for what a communication thread is in
  bool host_in_call = false;  // the rank's host stands in for a communication thread
  int posted = 0;             // likewise: calls of which all that is left is on the device
  EmulatedDevice* emulated = nullptr;  // the device, if it is one
  bool tells_waits = false;        // the device does, when it knows how long its compute stream stood still for them
  std::string_view waits_for = {};  // the rank's host has the compute stream wait for this one, as traces name it
  // For the host, before it issues a call: what was launched on the compute stream is over. When it was, on the run's clock.
  double CatchUp() { return emulated == nullptr ? run.Now() : run.Since(emulated->CatchUp()); }
};
// The run has failed; hosts that wait are told, and queues are no longer drained. Any thread may call.
void Abandon(RankState& rank);
// For the rank's host: until communication threads, too, know that the device is through with the calls that it has, and have traced them;
// or the run is ending.
void AwaitPosted(RankState& rank);

class Queue;

// One issued call. Waiting is for the rank's own host; it goes through a stream, which counts the time as stalled.
class Item : public Work::State, public std::enable_shared_from_this<Item> {
 public:
  Item(std::shared_ptr<RankState> owner, Queue* queue, std::shared_ptr<const Call> call, Tensor workspace,
       CommunicationStats::Entry& entry, bool quiet)
      : owner_(std::move(owner)),
        queue_(queue),
        call_(std::move(call)),
        workspace_(std::move(workspace)),
        entry_(entry),
        quiet_(quiet),
        label_(owner_->trace.label()),
        stream_(StreamOf(*queue_)),
        event_(*this) {}

  void Wait() override;
  void WaitOn(Stream& stream) override;
  bool Test() override;
  size_t WaitAny(std::span<Work::State* const> states) override;
  int source() const override { return source_; }

 private:
  friend class Queue;
  class DoneEvent : public TimedEvent {
   public:
    explicit DoneEvent(Item& item) : item_(item) {}
    bool Done() override { return item_.done() || item_.posted(); }
    void Wait() override;
    double time() const override;

   private:
    Item& item_;
  };
  struct Failure {
    RankFailure::Kind kind;
    std::string message;
  };
  static std::string_view StreamOf(const Queue& queue);
  void Order(Stream& stream);  // after this
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool posted() const { return posted_.load(std::memory_order_acquire); }
  void ThrowIfFailed() const;  // once done

  const std::shared_ptr<RankState> owner_;
  Queue* const queue_;  // alive until all of its items are done
  const std::shared_ptr<const Call> call_;
  const Tensor workspace_;  // borrowed; empty: none
  CommunicationStats::Entry& entry_;
  const bool quiet_;
  const std::string_view label_;   // what the host was doing when it issued the call
  const std::string_view stream_;  // the queue's, as traces name it
  DoneEvent event_;    // done, or what is left is on the device
  Event on_device_;    // written before posted_: what is left
  int tests_ = 0;
  bool timed_by_host_ = false;  // WaitOn adds the seconds, not Do
  std::atomic<bool> done_ = false, posted_ = false;
  int source_ = -1;                 // written before done_
  double end_ = 0;                  // likewise: on the run's clock; 0: not timed
  std::optional<Failure> failure_;  // likewise
};

class Queue {
 public:
  // Does one call, blocking, and returns the source of a receive, else -1. Throws what went wrong.
  using Execute = std::function<int(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace)>;

  // Whether `call`, which was pushed quietly, can be done without waiting for something that may take long.
  using Ready = std::function<bool(const Call& call)>;

  // How the thread learns of a call. Told at once, it starts in a few microseconds, which a host that waits at once pays, too.
  // Looking by itself every kLook while calls come (and told when they come again after a pause), it starts later, and costs
  // a host that waits nothing. Alone, it is told at once, and no host does a call in its place: one that launches ahead of its
  // device is not to wait for the device.
  enum Start { kTold, kLooks, kAlone };

  // `stream_name` is what the trace calls it. `ready` is needed where PushQuietly is used.
  Queue(std::shared_ptr<RankState> owner, std::string_view stream_name, Execute execute, Start start = kTold, Ready ready = nullptr)
      : owner_(std::move(owner)),
        stream_name_(owner_->trace.Kept(stream_name)),
        execute_(std::move(execute)),
        start_(start),
        ready_(std::move(ready)) {}
  ~Queue() { Close(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // `workspace` is borrowed like the call's operands: the program keeps both until it has waited.
  std::shared_ptr<Item> Push(std::shared_ptr<const Call> call, Tensor workspace, CommunicationStats::Entry& entry);
  // The same into an empty queue, without waking the thread: the call is done when the host waits, when it tests and the
  // call is ready, or before what is pushed next. Its time is counted from then. A host that tests in vain many times, or
  // that sleeps until any of several calls is done, leaves it to the thread.
  std::shared_ptr<Item> PushQuietly(std::shared_ptr<const Call> call, CommunicationStats::Entry& entry);
  // The same of a call of which all that is left is on the device, before `end`.
  std::shared_ptr<Item> PushPosted(std::shared_ptr<const Call> call, Event end, CommunicationStats::Entry& entry);
  // By Execute, of the call that it does, or of one that comes after it: likewise, from now on.
  void Post(Event end) { Post(*current_, std::move(end)); }
  void Post(Item& item, Event end);
  // Block the host: until the call is done, or, with kPosted, until what is left of it is on the device.
  enum Until { kDone, kPosted };
  void Await(Item& item, Until until);
  bool Settle();           // does a quiet call that is ready; returns whether the queue is empty then
  bool Idle() const { return unfinished_.load(std::memory_order_acquire) == 0; }  // for the host, which alone pushes
  // Does what is left and ends the thread; nothing may be pushed afterwards. False where the rank has been abandoned with
  // a call under way: then the queue must never be destroyed.
  bool Close();

 private:
  friend class Item;
  void Append(std::shared_ptr<Item> item);
  void Hand(const std::shared_ptr<Item>& item);
  void LeaveToThread();
  void StartThread();
  void Loop();
  void Look(std::unique_lock<std::mutex>& lock);
  void DoFront(std::unique_lock<std::mutex>& lock, bool on_host);
  void Do(Item& item);

  const std::shared_ptr<RankState> owner_;
  const std::string_view stream_name_;
  static constexpr std::chrono::microseconds kLook{100};
  static constexpr int kLooksInVain = 20;

  bool HasWork() const { return !busy_ && (closing_ || !pending_.empty()); }

  const Execute execute_;
  const Start start_;
  const Ready ready_;
  double paced_until_ = 0;  // when links were done with the last call whose end they decide
  std::condition_variable wake_;  // the communication thread
  std::deque<std::shared_ptr<Item>> pending_;
  std::atomic<int> unfinished_ = 0;  // pending, or being done; written with the lock held
  bool busy_ = false, closing_ = false;
  Item* current_ = nullptr;  // that is being done; of the thread that does it
  bool looking_ = false;  // the thread looks by itself
  uint64_t pushed_ = 0;   // calls, ever
  std::thread thread_;
};

}  // namespace twofold::host
