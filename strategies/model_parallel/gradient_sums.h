// Sums gradients over ranks that share one copy of a model, for parameters that several ranks hold but of which each
// rank saw only part of the uses (nn::ShardLayout::Part::partial). Under sequence parallelism these are norms,
// positions and the biases of row-parallel layers; otherwise key/value heads that ranks share, and the table that the
// first and last pipeline stage share. After these sums the ranks have the same gradient and update equally.
//
//     layout.FinishGradients();  sums.Run();  norm, clipping, update
//
// With S the bytes of such gradients that a rank's optimizer updates (of its shard, in sharded layouts) and n ranks in
// a group:
//   memory         S while it runs, if the gradients are not contiguous
//   communication  one all-reduce per group: each rank sends 2 S (n - 1) / n bytes, once a step for any number of
//                  micro-batches, in the type in which gradients accumulate. It runs after the mean over replicas:
//                  means of sums are sums of means, so that it is enough to sum shards
//   compute        copies of S into a message and back
// Limits: the ranks of a group must hold the same elements in the same order. Along tp they do, since all ranks have
// parameters of the same shapes. A table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include <map>
#include <vector>

#include "core/device/transfers.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// The gradients of a rank that are summed over one group.
struct PartialGradients {
  std::vector<Tensor> pieces;  // views into the slices' gradients, in their order; neighbours are one piece
  int64_t elements = 0;
};
// By the holders' tag, in the order of the sums.
std::map<nn::GroupTag, PartialGradients> PartialGradientsOf(const ParameterLayout& layout);

// One object per rank. All arguments must outlive it.
class GradientSums {
 public:
  GradientSums(nn::Context& ctx, const ParameterLayout& layout, const ReplicaGroups& groups);
  // Replaces the gradients of the layout's slices, for work launched after this call, with their sums over the groups.
  // Collective over each group.
  void Run();

 private:
  struct Message : PartialGradients {
    ProcessGroup* group;
  };
  void Sum(const Message& message);
  void SumOnHost(const Message& message, Tensor& whole);

  nn::Context& ctx_;
  std::vector<Message> messages_;
};

}  // namespace twofold
