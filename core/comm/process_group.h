// The fabric seam: an ordered set of ranks that communicate.
//
// Every call is asynchronous on the group's own stream, in the order issued, and starts after everything launched so far
// on the device's compute stream. All ranks of a group issue the same collectives in the same order. A send completes
// when the receiver has taken the data; two ranks that each send before they receive wait for each other (as with NCCL):
// use Batch. On a group of one, collectives cost nothing
// and are not counted.
//
// A backend implements Issue and Split. Where it has no native form of a collective, default_collectives.h builds it from
// point-to-point messages.
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
  const std::vector<int>& ranks() const { return ranks_; }  // in the world, by rank in the group

  Work Send(const Tensor& t, int to, Tag tag = 0);
  Work Recv(Tensor& t, int from_or_any, Tag tag = 0);
  Work Batch(std::span<const P2p> ops);  // all at once; done when all are
  Work AllReduce(Tensor& t, ReduceOp op = ReduceOp::kSum);
  Work AllGather(Tensor& out, const Tensor& shard);  // out.numel == shard.numel * size(); shard may be its place in out
  Work ReduceScatter(Tensor& shard, const Tensor& in, ReduceOp op = ReduceOp::kSum);  // likewise
  Work Broadcast(Tensor& t, int root);
  Work Reduce(Tensor& t, ReduceOp op, int root);      // the result stands at the root; elsewhere t is unchanged
  Work Gather(Tensor& out, const Tensor& shard, int root);   // out is used at the root only
  Work Scatter(Tensor& shard, const Tensor& in, int root);   // in is used at the root only
  Work AllToAll(Tensor& out, const Tensor& in);              // block i of in goes to rank i; not in place
  Work AllToAllV(Tensor& out, std::span<const int64_t> out_counts, const Tensor& in, std::span<const int64_t> in_counts);
  Work Barrier();

  // Collective over this group, blocking: ranks of equal color form a group, ordered by key, then by rank.
  // A negative color gives nullptr.
  virtual std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) = 0;
  // Groups of `size` ranks each, which divides this group's: consecutive ones, [0, size), [size, 2 size), ...; or strided
  // ones, whose ranks are equal modulo this->size() / size. Returns this rank's; of as many ranks as this group has, it is
  // this group again with a stream of its own. Collective over this group, blocking.
  enum class Pattern { kConsecutive, kStrided };
  virtual std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name);
  // Groups that together hold every rank of this one once, known to all: every rank is given the same list. Returns this
  // rank's, with its ranks in the listed order; a group of one is Alone. Collective over this group, blocking. Unlike Split it
  // needs nobody to tell the others anything.
  virtual std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name);
  // A group of the listed ranks (of this group), in that order; nullptr for others. Collective over this group.
  std::unique_ptr<ProcessGroup> NewGroup(std::span<const int> ranks, std::string name);
  // A group of this rank alone; no other rank takes part in making it.
  std::unique_ptr<ProcessGroup> Alone(std::string name);

 protected:
  // `stats` counts this rank's communication and outlives the group.
  ProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats);

  struct Issued {
    std::shared_ptr<Work::State> state;
    std::vector<Tensor> workspace;  // kept like the operands until the program waits
  };
  // Starts `c` on the group's stream. Shapes, dtypes, roots and peers have been checked; size() > 1. `entry` is where the
  // backend adds the seconds that it took. Operands are kept alive by the caller until the program has waited.
  virtual Issued Issue(const Communication& c, CommunicationStats::Entry& entry) = 0;

  Device& device() { return device_; }
  CommunicationStats& stats() { return stats_; }

 private:
  void CheckPeer(int peer, Tag tag) const;
  void CheckRoot(int root) const;
  void CheckBlocks(const Tensor& whole, const Tensor& block) const;  // whole = size() blocks
  Work Start(Communication c);
  void CopyLocally(const Communication& c);  // a group of one

  std::string name_;
  int rank_;
  std::vector<int> ranks_;
  Device& device_;
  CommunicationStats& stats_;
  std::array<CommunicationStats::Entry*, Communication::kKinds> entries_{};  // null: that kind was not used yet
  std::shared_ptr<HeldTensors> held_;
};

}  // namespace twofold
