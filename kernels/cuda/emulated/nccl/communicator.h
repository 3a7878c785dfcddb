// One rank's end of a communicator: creation, connection, enqueueing of operations, and end.
//
// Handles are kept for as long as the process runs, so that a destroyed handle can be told from a valid one. The shared
// memory is released when nothing uses it. Abort, from any thread, stops a wait for other ranks.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/nccl/clique.h"
#include "kernels/cuda/emulated/nccl/launch.h"

namespace twofold::emulated {

// The result of a call, and the reason if it failed.
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

  // For the result of a split, Split sets rank and size.
  ncclComm(int rank, int size, int device, bool blocking, std::string name)
      : rank(rank), size(size), device(device), blocking(blocking), name(std::move(name)) {}

  int rank, size;
  const int device;
  const bool blocking;
  const std::string name;

  // ---- Calls that wait for other ranks; they return ncclInternalError if aborted ----

  Outcome Initialize(const twofold::emulated::CliqueName& clique);
  // `child` becomes this rank's end of the new communicator. It is null if the color is NCCL_SPLIT_NOCOLOR.
  Outcome Split(int color, int key, ncclComm* child);
  // Connects the ranks that the operations need.
  Outcome Connect(const std::vector<twofold::emulated::Operation>& operations);
  Outcome Finalize();

  // ---- Calls that do not wait ----

  // Checks an operation before it is enqueued.
  Outcome Check(const twofold::emulated::Operation& operation) const;
  // Enqueues the operations on the stream of the first one. That stream and the streams of the others wait for each
  // other.
  Outcome Enqueue(std::vector<twofold::emulated::Operation> operations);
  bool Outstanding() const {
    return finished_.load(std::memory_order_acquire) != launched_.load(std::memory_order_relaxed);
  }
  void Abort();  // returns when no stream uses it any more
  void Leave();  // after Finalize
  ncclResult_t AsyncError();

  std::string Describe() const;  // "rank 1 of 4 (name)"
  void Report(const std::string& what) const;

  // ---- For the calling functions ----

  std::atomic<bool> gone{false};  // destroyed or aborted
  std::atomic<bool> finalized{false};
  std::atomic<int> callers{0};  // calls in progress

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
  mutable std::mutex mutex_;  // guards the two below
  std::string error_;
  std::shared_ptr<Clique> clique_;
  std::atomic<bool> aborted_{false};
  // two threads may enqueue at once, against the rules: numbers follow the stream's order all the same
  std::mutex enqueuing_;
  std::atomic<uint64_t> launched_{0};  // launches given to streams
  std::atomic<uint64_t> finished_{0};  // launches finished
  std::atomic<int> running_{0};        // launches running
};

namespace twofold::emulated {

// Null unless `handle` is one that was made here.
std::shared_ptr<ncclComm> Known(ncclComm_t handle);
ncclComm_t MakeKnown(std::shared_ptr<ncclComm> comm);

void Report(const std::string& what);

// Sets the current GPU of this thread for its lifetime.
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
