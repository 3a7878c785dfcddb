// The stream of one group at one rank: calls in the order issued, done by a communication thread of its own, so that they
// overlap with what the host computes. A host that waits does the next call itself when the thread has not begun it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "backends/host/run_state.h"
#include "core/comm/stats.h"
#include "core/comm/work.h"
#include "core/device/device.h"
#include "core/run/trace.h"

namespace twofold::host {

// What the queues of one rank share.
struct RankState {
  RunState& run;
  int rank;
  Device& device;
  Trace& trace;
  std::mutex mutex;              // guards all of the rank's queues
  std::condition_variable done;  // some call of some queue is done
  // Both under `mutex`, for fabrics whose blocking calls nothing can interrupt: what hangs in one is left where it is.
  bool abandoned = false;     // the run has failed: nobody waits any more for what a communication thread is in
  bool host_in_call = false;  // the rank's host stands in for a communication thread
};
// The run has failed; hosts that wait are told, and queues are no longer drained. Any thread may call.
void Abandon(RankState& rank);

class Queue;

// One issued call. Waiting is for the rank's own host; it goes through a stream, which counts the time as stalled.
class Item : public Work::State, public std::enable_shared_from_this<Item> {
 public:
  Item(std::shared_ptr<RankState> owner, Queue* queue, std::shared_ptr<const Call> call, Tensor workspace,
       CommunicationStats::Entry& entry)
      : owner_(std::move(owner)), queue_(queue), call_(std::move(call)), workspace_(std::move(workspace)), entry_(entry) {}

  void Wait() override;
  void WaitOn(Stream& stream) override;
  bool Test() override { return done_.load(std::memory_order_acquire); }
  size_t WaitAny(std::span<Work::State* const> states) override;
  int source() const override { return source_; }

 private:
  friend class Queue;
  class DoneEvent;
  struct Failure {
    RankFailure::Kind kind;
    std::string message;
  };
  void ThrowIfFailed() const;  // once done

  const std::shared_ptr<RankState> owner_;
  Queue* const queue_;  // alive until all of its items are done
  const std::shared_ptr<const Call> call_;
  const Tensor workspace_;  // borrowed; empty: none
  CommunicationStats::Entry& entry_;
  std::atomic<bool> done_ = false;
  int source_ = -1;                 // written before done_
  std::optional<Failure> failure_;  // likewise
};

class Queue {
 public:
  // Does one call, blocking, and returns the source of a receive, else -1. Throws what went wrong.
  using Execute = std::function<int(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace)>;

  // `stream_name` is what the trace calls it.
  Queue(std::shared_ptr<RankState> owner, std::string stream_name, Execute execute)
      : owner_(std::move(owner)), stream_name_(std::move(stream_name)), execute_(std::move(execute)) {}
  ~Queue() { Close(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // `workspace` is borrowed like the call's operands: the program keeps both until it has waited.
  std::shared_ptr<Item> Push(std::shared_ptr<const Call> call, Tensor workspace, CommunicationStats::Entry& entry);
  void Await(Item& item);  // blocks the host
  bool Idle();
  // Does what is left and ends the thread; nothing may be pushed afterwards. False where the rank has been abandoned with
  // a call under way: then the queue must never be destroyed.
  bool Close();

 private:
  void Loop();
  void DoFront(std::unique_lock<std::mutex>& lock, bool on_host);
  void Do(Item& item);

  const std::shared_ptr<RankState> owner_;
  const std::string stream_name_;
  const Execute execute_;
  std::condition_variable wake_;  // the communication thread
  std::deque<std::shared_ptr<Item>> pending_;
  bool busy_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace twofold::host
