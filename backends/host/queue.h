// The stream of one group at one rank. A communication thread executes the calls in the order issued, so that they
// overlap with the host's computation. A host that waits executes the next call itself if the thread has not begun it;
// calls that cost less than waking the thread are left to the host.
//
// If the device has streams, the thread enqueues a call's work on one of them. Once all of it is enqueued ("posted"),
// other streams of the device can wait for the call without the host. Before that a wait blocks the host, because there
// is no event to wait for yet. The call is done, and the thread goes on to the next, when the stream has finished it. A
// host that enqueues the work itself pushes a call that is already posted; the thread then only waits for its end.
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

// State shared by the queues of one rank. Has its own cache lines, as ranks write to theirs at every call.
struct alignas(128) RankState {
  RunState& run;
  int rank;
  Device& device;
  Trace& trace;
  std::mutex mutex;              // guards all queues of the rank
  std::condition_variable done;  // some call of some queue is done
  // Both are guarded by `mutex`. For fabrics whose blocking calls cannot be interrupted: a thread that hangs in one is
  // left there.
  bool abandoned = false;              // the run has failed: nobody waits for a communication thread's current call
  bool host_in_call = false;           // the host is executing a call in place of a communication thread
  int posted = 0;                      // also guarded by `mutex`: number of posted calls
  EmulatedDevice* emulated = nullptr;  // the device, if it is one
  bool tells_waits = false;            // the device reports how long its compute stream stalled
  std::string_view waits_for = {};  // the stream that the compute stream is being made to wait for, as named in traces
  // Called by the host before it issues a call: waits until everything launched on the compute stream is over. Returns
  // when that was, on the run's clock.
  double CatchUp() { return emulated == nullptr ? run.Now() : run.Since(emulated->CatchUp()); }
};
// Call when the run has failed: waiting hosts are woken, and queues are no longer drained. Thread-safe.
void Abandon(RankState& rank);
// Called by the rank's host. Blocks until the communication threads, too, know that the device has finished its calls,
// and have traced them; or until the run is ending.
void AwaitPosted(RankState& rank);

class Queue;

// One issued call. Only the rank's own host waits, through a stream, which counts the time as stalled.
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
  void ThrowIfFailed() const;  // call once done

  const std::shared_ptr<RankState> owner_;
  Queue* const queue_;  // valid until all of its items are done
  const std::shared_ptr<const Call> call_;
  const Tensor workspace_;  // borrowed; empty if none
  CommunicationStats::Entry& entry_;
  const bool quiet_;
  const std::string_view label_;   // the trace label when the host issued the call
  const std::string_view stream_;  // the queue's stream, as named in traces
  DoneEvent event_;                // done or posted
  Event on_device_;                // the end of the posted work; written before posted_
  int tests_ = 0;
  bool timed_by_host_ = false;  // WaitOn, not Do, adds the seconds
  std::atomic<bool> done_ = false, posted_ = false;
  int source_ = -1;                 // written before done_
  double end_ = 0;                  // written before done_: on the run's clock; 0: not timed
  std::optional<Failure> failure_;  // written before done_
};

class Queue {
 public:
  // Executes one call, blocking. Returns the source of a receive, else -1. Throws on failure.
  using Execute = std::function<int(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace)>;

  // Whether `call`, which was pushed quietly, can be executed without a possibly long wait.
  using Ready = std::function<bool(const Call& call)>;

  // How the communication thread learns of a call:
  //
  //   kTold   It is notified at once and starts in a few microseconds; a host that waits at once pays for that, too.
  //   kLooks  It polls every kLook while calls keep coming (and is notified when they resume after a pause). It starts
  //           later, and costs a waiting host nothing. While the host executes a call it polls ever more rarely, since
  //           on few cores each look may take one from a thread that moves data.
  //   kAlone  It is notified at once, and the host never executes a call in its place: a host that launches ahead of
  //           its device must not wait for the device.
  enum Start { kTold, kLooks, kAlone };

  // `stream_name` is the stream's name in traces. `ready` is required if PushQuietly is used.
  Queue(std::shared_ptr<RankState> owner, std::string_view stream_name, Execute execute, Start start = kTold,
        Ready ready = nullptr)
      : owner_(std::move(owner)),
        stream_name_(owner_->trace.Kept(stream_name)),
        execute_(std::move(execute)),
        start_(start),
        ready_(std::move(ready)) {}
  ~Queue() { Close(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // `workspace` is borrowed like the call's operands: the program keeps both alive until it has waited.
  std::shared_ptr<Item> Push(std::shared_ptr<const Call> call, Tensor workspace, CommunicationStats::Entry& entry);
  // Like Push, into an empty queue, without waking the thread. The call is executed when the host waits, when the host
  // tests and the call is ready, or before the next push. Its time is counted from then. A host that tests many times
  // without success, or that sleeps until any of several calls is done, leaves it to the thread.
  std::shared_ptr<Item> PushQuietly(std::shared_ptr<const Call> call, CommunicationStats::Entry& entry);
  // Like Push, for a call that is already posted and ends at `end`.
  std::shared_ptr<Item> PushPosted(std::shared_ptr<const Call> call, Event end, CommunicationStats::Entry& entry);
  // Called by Execute: the call being executed, or a later one, is posted from now on and ends at `end`.
  void Post(Event end) { Post(*current_, std::move(end)); }
  void Post(Item& item, Event end);
  // Blocks the host until the call is done or, with kPosted, until it is posted.
  enum Until { kDone, kPosted };
  void Await(Item& item, Until until);
  bool Settle();  // executes a quiet call that is ready; returns whether the queue is empty then
  // Called by the host, the only thread that pushes.
  bool Idle() const { return unfinished_.load(std::memory_order_acquire) == 0; }
  // Executes the remaining calls and ends the thread; nothing may be pushed afterwards. Returns false if the rank has
  // been abandoned during a call; the queue must never be destroyed then.
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
  static constexpr std::chrono::microseconds kLook{100}, kLongLook{2000};
  static constexpr int kLooksInVain = 20;

  bool HasWork() const { return !busy_ && (closing_ || !pending_.empty()); }

  const Execute execute_;
  const Start start_;
  const Ready ready_;
  double paced_until_ = 0;        // end of the last call that the link model timed
  std::condition_variable wake_;  // wakes the communication thread
  std::deque<std::shared_ptr<Item>> pending_;
  std::atomic<int> unfinished_ = 0;  // pending or being executed; written with the lock held
  bool busy_ = false, closing_ = false;
  Item* current_ = nullptr;  // being executed; used by the executing thread only
  bool looking_ = false;     // the thread is polling
  uint64_t pushed_ = 0;      // total calls
  std::thread thread_;
};

}  // namespace twofold::host
