// What the host and the queue's thread of one group (group.h) work on: the communicator, the stream, and who gives it what.
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

// A call in which NCCL may connect ranks: -1 or -2 for a message to or from a peer; of collectives what decides the algorithm (the kind,
// type and reduction in one number, and the order of magnitude of the size), and the root.
using Contact = std::tuple<int, int, int>;

struct GroupCall : host::Call {
  std::vector<Message> messages = {};  // none: a collective
  std::vector<Contact> contacts = {};
  bool any_source = false;
  // Written when it is given to the stream.
  mutable std::vector<Message> matched = {};  // `messages`, with sources
  mutable std::shared_ptr<cuda::CudaEvent> start = nullptr, end = nullptr;  // null: not given to the stream yet
};
struct StartCall : host::Call {  // makes the world's communicator
  ncclUniqueId id = {};
};
struct SplitCall : host::Call {
  int color = 0, key = 0;
  std::string name = {};
  mutable std::shared_ptr<Engine> made = nullptr;  // null: this rank has no part in it, or is alone
  mutable bool alone = false;
};

class Engine {
 public:
  // `communicator` is null of a world that has yet to start.
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
  // Gives the call to the stream, if that waits for nobody, or leaves that to the thread.
  std::shared_ptr<host::Item> Issue(const std::shared_ptr<const GroupCall>& call, CommunicationStats::Entry& entry, host::Queue& queue);

  // ---- On the queue's thread ----
  int Execute(const host::Call& call, host::Queue& queue);

 private:
  struct Waiting {
    std::shared_ptr<const GroupCall> call;
    std::shared_ptr<host::Item> item;
  };
  void LaunchFromHost(const GroupCall& call, const std::shared_ptr<const host::Call>& shared);

  // ---- On either, one at a time ----
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
  void Split(const SplitCall& call);
  void GatherPairs(int32_t a, int32_t b);

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
  std::shared_ptr<cuda::CudaEvent> last_end_;  // of what the stream was given last
  std::vector<uint64_t> receives_;                                        // from each peer, that were given to the stream
  std::vector<std::shared_ptr<watch::CallLog>> sent_log_, received_log_;  // by peer; null: no message yet
  std::array<int32_t, 2> pair_{};                                         // while a group is divided: this rank's color and key
  std::vector<int32_t> pairs_;                                            // everybody's

  std::mutex launch_mutex_;
  std::deque<Waiting> waiting_;  // for the thread to give them to the stream
  std::set<Contact> connected_;
};

}  // namespace twofold::nccl
