// The part of one group (group.h) that the host and the queue's thread share: the communicator, the stream, and the
// logic that decides which of the two enqueues a call.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "backends/host/queue.h"
#include "backends/nccl/communicate.h"
#include "backends/nccl/group.h"
#include "kernels/cuda/streams.h"

namespace twofold::nccl {

// Identifies calls in which NCCL may connect ranks. For a message: -1 or -2 for its direction (to or from a peer), and
// the peer. For a collective: what decides the algorithm (kind, type and reduction in one number, and the order of
// magnitude of the size), and the root.
using Contact = std::tuple<int, int, int>;

struct GroupCall : host::Call {
  std::vector<Message> messages = {};  // empty: a collective
  std::vector<Contact> contacts = {};
  bool any_source = false;
  // Written when the call is enqueued.
  mutable std::vector<Message> matched = {};                                // `messages`, with sources filled in
  mutable std::shared_ptr<cuda::CudaEvent> start = nullptr, end = nullptr;  // null: not yet enqueued
};
struct StartCall : host::Call {  // creates the world's communicator
  ncclUniqueId id = {};
};
struct CommSplitCall : host::Call {
  int color = 0, key = 0;
  std::string name = {};
  mutable std::shared_ptr<Engine> made = nullptr;  // null: this rank is in no new group, or is alone
  mutable bool alone = false;
};

class Engine {
 public:
  // `communicator` is null for a world that has yet to start.
  Engine(std::shared_ptr<const host::GroupIdentity> identity, int rank, std::shared_ptr<Communicator> communicator,
         std::shared_ptr<RunParts> parts, std::shared_ptr<host::RankState> owner);

  const host::GroupIdentity& identity() const { return *identity_; }
  const std::shared_ptr<const host::GroupIdentity>& shared_identity() const { return identity_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(identity_->ranks.size()); }
  bool is_world() const { return is_world_; }
  RunParts& parts() { return *parts_; }
  const std::shared_ptr<host::RankState>& owner() { return owner_; }
  const std::shared_ptr<const std::string>& label() const { return label_; }
  CommunicationStats::Entry& unreported() { return unreported_; }

  // ---- On the host ----
  // Enqueues the call on the stream if that cannot block on other ranks; otherwise leaves it to the thread.
  std::shared_ptr<host::Item> Issue(const std::shared_ptr<const GroupCall>& call, CommunicationStats::Entry& entry,
                                    host::Queue& queue);

  // ---- On the queue's thread ----
  int Execute(const host::Call& call, host::Queue& queue);

 private:
  struct Waiting {
    std::shared_ptr<const GroupCall> call;
    std::shared_ptr<host::Item> item;
  };
  void LaunchFromHost(const GroupCall& call, const std::shared_ptr<const host::Call>& shared);

  // ---- On either thread, one at a time ----
  void Launch(const GroupCall& call);
  void Enqueue(const GroupCall& call);
  void WaitForCompute(const GroupCall& call);
  void NoteMessages(const std::vector<Message>& messages);
  bool Connected(const GroupCall& call) const;        // with launch_mutex_ held
  [[noreturn]] void Explain(const host::Call& call);  // within a catch block

  // ---- On the queue's thread ----
  int Do(const GroupCall& call, host::Queue& queue);
  void LaunchWaiting(const GroupCall& until, host::Queue& queue);
  void MatchSources(const GroupCall& call);
  void Start(const StartCall& call);
  void Split(const CommSplitCall& call);
  void GatherPairs(int32_t a, int32_t b);
  ncclComm_t SplitComm(int color, const CommSplitCall& call);

  ncclConfig_t Config() const;
  int world_rank(int r) const { return identity_->ranks[static_cast<size_t>(r)]; }
  int place_of(int world_rank) const;

  const std::shared_ptr<const host::GroupIdentity> identity_;
  const int rank_;
  const bool is_world_;
  const std::shared_ptr<RunParts> parts_;
  const std::shared_ptr<host::RankState> owner_;
  const std::shared_ptr<const std::string> label_;
  const std::shared_ptr<cuda::StreamsOfDevice> gpu_;
  CommunicationStats::Entry unreported_;

  std::shared_ptr<Communicator> communicator_;
  cuda::CudaStream stream_;
  std::shared_ptr<cuda::CudaEvent> last_end_;  // of the last work enqueued
  std::vector<uint64_t> receives_;             // number of receives from each peer that were enqueued
  std::vector<std::shared_ptr<control::CallLog>> sent_log_, received_log_;  // by peer; null if no message yet
  std::array<int32_t, 2> pair_{};                                           // during a split: this rank's color and key
  std::vector<int32_t> pairs_;                                              // all ranks' pairs

  std::mutex launch_mutex_;
  std::deque<Waiting> waiting_;  // calls that the thread must enqueue
  std::set<Contact> connected_;
};

}  // namespace twofold::nccl
