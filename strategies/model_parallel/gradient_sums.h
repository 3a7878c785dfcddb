// Sums of gradients over ranks that share one copy of a model, of parameters that several of them have and of which each saw but a
// part of what uses them (nn::ShardLayout::Sum): under sequence parallelism norms, positions and biases of row-parallel layers, heads of keys
// and values that ranks share, the table that first and last stage of a pipeline share. After these sums such ranks have the same
// gradient, and update alike.
//
//     layout.FinishGradients();  sums.Run();  norm, clipping, update
//
// With S the bytes of such gradients that a rank's optimizer updates (a shard of them, where layouts shard) and n ranks in a group:
//   memory         S, while it runs, where they do not lie in one piece
//   communication  one all-reduce a group: 2 S (n - 1) / n bytes sent by each rank, once a step, whatever the micro-batches, in the type
//                  that gradients add up in. It comes after the mean over replicas; means of sums are sums of means, so that sums
//                  of shards are enough
//   compute        copies of S into a message and back
// Limits: the ranks of a group must hold the same elements in the same order. They do along tp, where all ranks have parameters of
// the same shapes; a table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include <vector>

#include "core/device/transfers.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// One rank's; all handed in outlives it.
class GradientSums {
 public:
  GradientSums(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers);
  // For what is launched next, the gradients of the layout's slices are sums over the groups. Collective over each group.
  void Run();

 private:
  struct Message {
    ProcessGroup* group;
    std::vector<Tensor> pieces;  // views into the slices' gradients, in their order
    int64_t elements = 0;
  };
  void Sum(const Message& message);
  void SumOnHost(const Message& message, Tensor& whole);

  nn::Context& ctx_;
  std::vector<Message> messages_;
};

}  // namespace twofold
