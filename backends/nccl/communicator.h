// NCCL communicators of one run, or of one generation of an elastic run's members, in this process.
//
// They are blocking, except in elastic runs: each call of a non-blocking communicator starts a thread (NCCL 2.28,
// groupLaunch), which is expected to cost more than a small collective itself (not measured). Calls that may wait for a
// peer forever are left to threads that can be abandoned (group.h). In an elastic run those threads must go on after a
// loss. So there no call waits for a peer, and Settle waits for the call's end, or for that of the generation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/host/run_state.h"
#include "backends/nccl/api.h"
#include "kernels/cuda/streams.h"

namespace twofold::nccl {

class Communicator {
 public:
  // A communicator of `size` ranks. Owns `raw` and some GPU memory, which the group's own operations use.
  Communicator(ncclComm_t raw, bool blocking, int size, int gpu, std::string label);
  ~Communicator();  // without Destroy or Abort, both stay allocated until the process ends
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Has 2 * (size + 1) elements.
  int32_t* scratch() const { return scratch_; }

  // Held while a thread is in a NCCL call on the communicator; one at a time. NCCL frees an aborted communicator even
  // while such a call is running and still touches it. So Abort then leaves the actual abort to the end of this object.
  // Throws NcclError if the communicator was already aborted.
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

  // Call after each call of NCCL: waits until it is done. Throws NcclError if it failed, and what `run` throws at
  // `rank` if the run ends meanwhile; then the communicator is aborted.
  void Settle(const host::RunState& run, int rank, const std::string& doing);
  // Collective over its ranks; no operation may be in progress. If `run` ends meanwhile, it may abort instead.
  void Destroy(const host::RunState& run);

  // ---- Thread-safe ----
  // Ends operations in progress on the GPU, with partial results; nothing may be called afterwards.
  void Abort();
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string AsyncError();  // "" if none; else an error that NCCL found outside any call

 private:
  void AwaitFinalized(const host::RunState& run);
  std::optional<ncclResult_t> State();  // nullopt: it has ended

  const ncclComm_t raw_;
  const bool blocking_;
  const int gpu_;
  const std::string label_;
  int32_t* scratch_ = nullptr;
  void EndAborted();

  std::mutex mutex_;  // guards AsyncError and calls against the end
  bool ended_ = false, in_call_ = false;
  std::atomic<bool> aborted_ = false;
};

// All communicators of one run or generation. They are destroyed at its end, together and in the same order on all
// ranks, and not with their groups: destroying one waits for its peers and for the GPU, and ranks may release groups in
// different orders.
class Communicators {
 public:
  // Polls ten times a second for errors that NCCL finds outside any call; such an error fails `run`. `run` is not
  // touched once StopLooking has returned, apart from DestroyAll.
  Communicators(host::RunState& run, int rank, bool blocking);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  bool blocking() const { return blocking_; }
  std::shared_ptr<Communicator> Add(ncclComm_t raw, int size, int gpu, std::string label);
  void StopLooking();
  void DestroyAll();
  void AbortAll();  // returns at once; thread-safe

 private:
  void Look();
  std::vector<std::shared_ptr<Communicator>> all() const;

  host::RunState& run_;
  const int rank_;
  const bool blocking_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Communicator>> all_;
  bool ending_ = false, aborted_ = false;
  std::thread looks_;
};

}  // namespace twofold::nccl
