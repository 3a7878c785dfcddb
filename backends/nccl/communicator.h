// NCCL communicators of one run in this process.
//
// They are blocking ones: calls of a non-blocking communicator start a thread each (NCCL 2.28, groupLaunch), which is expected to cost
// a small collective more than it takes (not measured). What may wait for a peer for ever is left to threads that can be left behind (group.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/host/run_state.h"
#include "backends/nccl/api.h"
#include "kernels/cuda/streams.h"

namespace twofold::nccl {

class Communicator {
 public:
  // Of `size` ranks. Owns `raw`, and some of the GPU's memory, which the group's own operations use.
  Communicator(ncclComm_t raw, int size, int gpu, std::string label);
  ~Communicator();  // without Destroy or Abort, both stay until the process ends
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Of 2 * (size + 1) numbers.
  int32_t* scratch() const { return scratch_; }

  // While a thread is in a call of NCCL with it: one at a time. NCCL frees an aborted communicator, also from under such a call, which
  // goes on to touch it; so Abort then leaves it to this to abort it in the end. Throws NcclError where it was aborted before.
  class InCall {
   public:
    explicit InCall(Communicator& communicator);
    ~InCall();
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;
    ncclComm_t raw() const { return communicator_.raw_; }

   private:
    Communicator& communicator_;
  };

  void Destroy();  // collective over its ranks; nothing is under way

  // ---- Any thread ----
  // What is under way on the GPU ends, with whatever it has written; nothing may be called afterwards.
  void Abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string AsyncError();  // "": none; else what NCCL found beside any call

 private:
  const ncclComm_t raw_;
  const int gpu_;
  const std::string label_;
  int32_t* scratch_ = nullptr;
  void EndAborted();

  std::mutex mutex_;  // AsyncError and calls against the end
  bool ended_ = false, in_call_ = false;
  std::atomic<bool> aborted_ = false;
};

// All of one run. They end with it, together and in the same order on all ranks, and not with their groups: to destroy one waits
// for its peers and for the GPU, and ranks may let go of groups in different orders.
class Communicators {
 public:
  // Looks for errors that NCCL finds beside any call, ten times a second; such a one fails `run`, which is not touched once StopLooking
  // has returned.
  Communicators(host::RunState& run, int rank);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  std::shared_ptr<Communicator> Add(ncclComm_t raw, int size, int gpu, std::string label);
  void StopLooking();
  void DestroyAll();
  void AbortAll();  // returns at once; any thread

 private:
  void Look();
  std::vector<std::shared_ptr<Communicator>> all() const;

  host::RunState& run_;
  const int rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Communicator>> all_;
  bool ending_ = false, aborted_ = false;
  std::thread looks_;
};

}  // namespace twofold::nccl
