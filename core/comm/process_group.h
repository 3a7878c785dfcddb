// The fabric interface: an ordered set of ranks that communicate.
//
// Every call is asynchronous and runs on the group's own stream, in issue order, after everything launched so far on
// the device's compute stream. All ranks of a group must issue the same collectives in the same order. A send completes
// when its tensor may be reused. On some backends that is only after the receiver has taken the data, so two ranks that
// each send before they receive may deadlock: use Batch. On a group of one rank, a collective only copies its input to
// its output, and it is not counted.
//
// A backend implements Issue and Split. If it has no native version of a collective, default_collectives.h builds it
// from point-to-point messages.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm/communication.h"
#include "core/comm/stats.h"
#include "core/comm/work.h"
#include "core/device/device.h"

namespace twofold {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }  // world ranks, indexed by rank in the group

  Work Send(const Tensor& t, int to, Tag tag = 0);
  Work Recv(Tensor& t, int from_or_any, Tag tag = 0);
  Work Batch(std::span<const P2p> ops);  // starts all ops together; done when all of them are done
  Work AllReduce(Tensor& t, ReduceOp op = ReduceOp::kSum);
  // out.numel == shard.numel * size(); shard may be this rank's block of out
  Work AllGather(Tensor& out, const Tensor& shard);
  // in.numel == shard.numel * size(); shard may be this rank's block of in
  Work ReduceScatter(Tensor& shard, const Tensor& in, ReduceOp op = ReduceOp::kSum);
  Work Broadcast(Tensor& t, int root);
  Work Reduce(Tensor& t, ReduceOp op, int root);            // the result is at the root; elsewhere t is unchanged
  Work Gather(Tensor& out, const Tensor& shard, int root);  // out is used at the root only
  Work Scatter(Tensor& shard, const Tensor& in, int root);  // in is used at the root only
  Work AllToAll(Tensor& out, const Tensor& in);             // block i of in goes to rank i; not in place
  // in holds in_counts[i] elements for each rank i, in rank order; out receives out_counts[i] elements from rank i.
  Work AllToAllV(Tensor& out, std::span<const int64_t> out_counts, const Tensor& in,
                 std::span<const int64_t> in_counts);
  Work Barrier();

  // Collective over this group, blocking. Ranks with equal color form a group, ordered by key, then by rank. A negative
  // color gives nullptr.
  virtual std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) = 0;
  // Splits this group into groups of `size` ranks; `size` must divide this group's size. kConsecutive: the groups are
  // [0, size), [size, 2 size), ... kStrided: a group holds the ranks that are equal modulo this->size() / size. Returns
  // this rank's group. If `size` is this group's size, it has the same ranks as this group, but a stream of its own.
  // Collective over this group, blocking.
  enum class Pattern { kConsecutive, kStrided };
  virtual std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name);
  // Splits this group into the given groups, which must contain every rank once. Every rank passes the same list.
  // Returns this rank's group, with its ranks in the listed order; a group of one rank is Alone. Collective over this
  // group, blocking. Unlike with Split, every rank knows all groups in advance, so a backend need not exchange colors
  // and keys. The default uses Split.
  virtual std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name);
  // Says that ranks of this group compute or hold different amounts, although they communicate alike. `kinds`: a number
  // for each rank of this group; ranks with equal numbers do the same. `why` completes "ranks were not folded: ...".
  // Whoever lets one rank stand for several then lets it stand for ranks of its own kind only. Sends nothing.
  virtual void RanksDiffer(std::span<const int> /*kinds*/, const std::string& /*why*/) {}
  // As RanksDiffer, for ranks that differ only in how long some of their operations take: by at most `share` of the
  // slowest's time. Returns whether this rank stands for such ranks all the same. Then it must launch what the slowest
  // of them launches.
  virtual bool RanksDifferInTime(std::span<const int> kinds, double /*share*/, const std::string& why) {
    RanksDiffer(kinds, why);
    return false;
  }
  // As RanksDiffer, for ranks that differ only in how long they take within Device::Briefly. Returns whether this rank
  // stands for such ranks all the same. Then it must launch there as much as the slowest of them.
  virtual bool RanksDifferBriefly(std::span<const int> kinds, const std::string& why) {
    RanksDiffer(kinds, why);
    return false;
  }
  // As RanksDiffer, for ranks that differ only in the collectives that they take over `others`, a group of this rank.
  // Each rank takes some of those that the first rank of this group takes, and later all wait for all. Apart from
  // staging (staging.h) they hold equally much memory. Then the first rank may stand for all, unless other ranks use
  // the links between `others`; if these collectives are brief, even then (as with RanksDifferBriefly).
  virtual void RanksDifferOver(ProcessGroup& /*others*/, std::span<const int> /*kinds*/, const std::string& /*why*/,
                               bool /*brief*/) {}
  // A group of the listed ranks of this group, in that order. Returns nullptr on other ranks. Collective over this
  // group.
  std::unique_ptr<ProcessGroup> NewGroup(std::span<const int> ranks, std::string name);
  // A group of this rank alone. No other rank takes part in its creation.
  std::unique_ptr<ProcessGroup> Alone(std::string name);

 protected:
  // `stats` counts this rank's communication and must outlive the group.
  ProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats);

  struct Issued {
    std::shared_ptr<Work::State> state;
    std::vector<Tensor> workspace;  // kept, like the operands, until the program waits
  };
  // Starts `c` on the group's stream. Shapes, dtypes, roots and peers have been checked, and size() > 1. The backend
  // adds the seconds that `c` took to `entry`. The caller keeps the operands alive until the program has waited.
  virtual Issued Issue(const Communication& c, CommunicationStats::Entry& entry) = 0;

  Device& device() { return device_; }
  CommunicationStats& stats() { return stats_; }

 private:
  void CheckPeer(int peer, Tag tag) const;
  void CheckRoot(int root) const;
  void CheckBlocks(const Tensor& whole, const Tensor& block) const;  // whole must have size() blocks
  Work Start(Communication c);
  void CopyLocally(const Communication& c);  // for a group of one rank

  std::string name_;
  int rank_;
  std::vector<int> ranks_;
  Device& device_;
  CommunicationStats& stats_;
  std::array<CommunicationStats::Entry*, Communication::kKinds> entries_{};  // null: that kind has not been used yet
  std::shared_ptr<HeldTensors> held_;
};

}  // namespace twofold
