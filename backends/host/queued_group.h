// A process group whose calls a queue (queue.h) executes: the code that in_memory, mpi, gloo and nccl share. It numbers
// the calls and ends the group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/host/queue.h"
#include "core/comm/process_group.h"

namespace twofold::host {

class QueuedGroup : public ProcessGroup {
 public:
  // Finishes what was issued; nothing may be issued afterwards. Throws if the run has failed and a call hangs.
  void Drain();

 protected:
  // Once the run has failed, a blocked call throws (kThrow), or it may hang in its library forever (kMayHang).
  enum class BlockedCalls { kThrow, kMayHang };

  // `label` is GroupLabel's. `identity` is null if all ranks live in one process. The derived class creates queue_.
  QueuedGroup(std::string name, int rank, std::vector<int> ranks, const std::string& label,
              std::shared_ptr<const GroupIdentity> identity, std::shared_ptr<RankState> owner,
              CommunicationStats& stats, BlockedCalls blocked_calls);

  // A call with the next number. Collectives, messages and splits are counted separately.
  template <class T>
  std::shared_ptr<T> NewCall(const Communication& c) {
    auto call = NumberedCall<T>(c.is_collective() ? ++collectives_ : ++messages_);
    call->communication = c.Borrowed();
    return call;
  }
  template <class T>
  std::shared_ptr<T> NewSplit() {
    return NumberedSplit<T>(++splits_);
  }
  // Number 0 creates the group itself.
  template <class T>
  std::shared_ptr<T> NumberedSplit(uint64_t sequence) const {
    auto call = NumberedCall<T>(sequence);
    call->split = true;
    return call;
  }
  void ThrowIfEnding(const Call& call) const;
  // Must be called first by the derived class's destructor. Finishes what was issued. If an exception is leaving the
  // rank's function and issued work cannot finish without this rank, ends the run. Returns false if the queue's thread
  // hangs in a call; the queue is never freed then.
  bool Close();

  const std::shared_ptr<RankState> owner_;
  const std::shared_ptr<const GroupIdentity> identity_;
  const std::shared_ptr<const std::string>
      label_;  // a copy per rank: ranks that are threads do not share its reference count
  std::unique_ptr<Queue> queue_;

 private:
  template <class T>
  std::shared_ptr<T> NumberedCall(uint64_t sequence) const {
    auto call = std::make_shared<T>();
    call->group = label_;
    call->identity = identity_;
    call->sequence = sequence;
    return call;
  }

  const BlockedCalls blocked_calls_;
  const int exceptions_;  // uncaught exceptions at construction
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
};

}  // namespace twofold::host
