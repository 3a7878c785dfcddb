// Sums gradients over ranks that share one copy of a model, for elements that several ranks hold but of which each rank
// computed only a part of the gradient (nn::ShardLayout): key/value heads that ranks share, the table that the first
// and last pipeline stage share and, under sequence parallelism, norms, positions, routers and the biases of
// row-parallel layers. After these sums the ranks have the same gradient and update equally.
//
// With S the bytes of such gradients that a rank keeps of a bucket, and n ranks in a group:
//   memory         S while the sum is in flight, if the elements are not contiguous (Category::kCommunication)
//   communication  one all-reduce for each bucket and group: each rank sends 2 S (n - 1) / n bytes, once a step for any
//                  number of micro-batches, in the type in which gradients accumulate
//   compute        copies of S into a message and back, if the elements are not contiguous
// The sums of a bucket overlap with the reductions of the buckets after it, and under ZeRO-2 and 3 with backward.
// If compression gave the ranks different means of elements of which they have copies (norms, biases of row-parallel
// layers without sequence parallelism), these are averaged in the same way, so that they stay copies.
// Limits: the ranks of a group must hold the same elements in the same order. Along tp they do, since all ranks have
// parameters of the same shapes. A table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/nn/context.h"
#include "core/optim/optimizer.h"
#include "strategies/groups/group_tags.h"

namespace twofold {

// Elements of a flat tensor that several ranks of one copy of the model hold.
struct HeldGradients {
  struct Stretch {
    int64_t first, count;
  };
  std::vector<Stretch> stretches;  // in order; no two are adjacent
  int64_t elements = 0;            // of all stretches
};
// Those among `kept` whose gradients the ranks computed in part (`partial`) or all of them whole, by the tag of the
// ranks that hold the same elements.
std::map<nn::GroupTag, HeldGradients> HeldGradientsOf(const std::vector<optim::SlicePart>& kept, bool partial);

// The sums of one bucket.
class HolderSums {
 public:
  // `kept`: the parts of parameters in what this rank keeps of the bucket. `copies_differ`: the means of elements that
  // ranks have copies of may differ.
  HolderSums(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups, bool copies_differ);
  // Nothing is summed. Instead all elements that several ranks have copies of are averaged, those with partial
  // gradients too: `kept` are means of something else, such as differences of parameters.
  static HolderSums Averages(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups);
  HolderSums() = default;
  bool empty() const { return messages_.empty(); }
  // Equal for sums that take the same messages and launches; empty if there is none.
  std::string Traits() const;
  // The group of all sums, if there is one such group and no elements are copied. Otherwise null.
  ProcessGroup* only_group() const;
  // The other ranks are on another pipeline stage. They may start these sums only after their last backward pass, which
  // may need messages from this rank's passes. So no pass of this rank may wait for the sums.
  bool across_stages() const { return across_stages_; }
  // At most one sum of few elements that need no copy. A rank may stand for others whose sums are such.
  bool few() const;
  // They are brief (Device::Briefly): this rank stands for others, which take fewer of them, or none.
  void SetBrief() { brief_ = true; }
  int64_t elements() const;  // of all sums

  struct Sending {
    Tensor elements;  // contiguous; the sum's own, or copies
    Work work;
  };
  // Starts to sum. `gradients`: what this rank keeps of the bucket, on the device.
  std::vector<Sending> Start(nn::Context& ctx, const Tensor& gradients) const;
  // For work launched from now on, `gradients` holds the sums.
  void Finish(nn::Context& ctx, std::vector<Sending> sending, const Tensor& gradients) const;

 private:
  struct Message {
    ProcessGroup* group;
    ReduceOp op;
    HeldGradients held;
  };
  void Add(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups, bool partial, ReduceOp op);
  std::vector<Message> messages_;
  bool across_stages_ = false, brief_ = false;
};

}  // namespace twofold
