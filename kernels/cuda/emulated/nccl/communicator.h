// One rank's end of a communicator: how it comes to be, connects, hands operations to streams, and ends.
//
// Handles are kept for as long as the process runs, so that one that is gone is told from one that is good; the shared memory is let
// go once nothing uses it. Who waits for other ranks may be stopped by Abort, from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/nccl/clique.h"
#include "kernels/cuda/emulated/nccl/launch.h"

namespace twofold::emulated {

// What a call gives, and why where it failed.
struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string why;
  bool ok() const { return result == ncclSuccess; }
};

}  // namespace twofold::emulated

struct ncclComm : std::enable_shared_from_this<ncclComm> {
 public:
  using Outcome = twofold::emulated::Outcome;
  using Clique = twofold::emulated::Clique;

  // One that a split makes learns its rank and size there.
  ncclComm(int rank, int size, int device, bool blocking, std::string name) : rank(rank), size(size), device(device), blocking(blocking), name(std::move(name)) {}

  int rank, size;
  const int device;
  const bool blocking;
  const std::string name;

  // ---- Waiting for other ranks; results are ncclInternalError where it was aborted ----

  Outcome Initialize(const twofold::emulated::CliqueName& clique);
  // `child` becomes this rank's end of the new communicator; null where the color is none.
  Outcome Split(int color, int key, ncclComm* child);
  // Connects whom the operations need.
  Outcome Connect(const std::vector<twofold::emulated::Operation>& operations);
  Outcome Finalize();

  // ---- Not waiting ----

  // What is wrong with an operation, before it is enqueued.
  Outcome Check(const twofold::emulated::Operation& operation) const;
  // On the first one's stream; those of others wait for it, and it for them.
  Outcome Enqueue(std::vector<twofold::emulated::Operation> operations);
  bool Outstanding() const { return finished_.load(std::memory_order_acquire) != launched_.load(std::memory_order_relaxed); }
  void Abort();  // returns when no stream is at it any more
  void Leave();  // after Finalize
  ncclResult_t AsyncError();

  std::string Describe() const;  // "rank 1 of 4 (name)"
  void Report(const std::string& what) const;

  // ---- Whoever calls ----

  std::atomic<bool> gone{false};  // destroyed or aborted
  std::atomic<bool> finalized{false};
  std::atomic<int> callers{0};    // calls at this moment

  void Begin() { state_.store(ncclInProgress, std::memory_order_relaxed); }
  void End(const Outcome& outcome);  // of what Begin began
  ncclResult_t state() const { return state_.load(std::memory_order_acquire); }
  std::string error() const;

 private:
  Outcome Aborted() const { return {ncclInternalError, Describe() + ": aborted"}; }
  std::shared_ptr<Clique> clique() const;
  Outcome MeetAll(Clique& clique);
  Outcome ConnectAll(Clique& clique, uint32_t kinds);
  bool StepOfSplit(Clique& clique);
  void Run(Clique& clique, const std::vector<twofold::emulated::Operation>& operations, uint64_t number);

  std::atomic<ncclResult_t> state_{ncclSuccess};
  mutable std::mutex mutex_;  // of the two below
  std::string error_;
  std::shared_ptr<Clique> clique_;
  std::atomic<bool> aborted_{false};
  std::mutex enqueuing_;  // two threads may, against the rules: numbers are in the order of the stream all the same
  std::atomic<uint64_t> launched_{0};  // what streams were given
  std::atomic<uint64_t> finished_{0};  // what they have done
  std::atomic<int> running_{0};        // what they are doing
};

namespace twofold::emulated {

// Null unless `handle` is one that was made.
std::shared_ptr<ncclComm> Known(ncclComm_t handle);
ncclComm_t MakeKnown(std::shared_ptr<ncclComm> comm);

void Report(const std::string& what);

// The GPU that CUDA's calls of this thread mean, for as long as this lives.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace twofold::emulated
