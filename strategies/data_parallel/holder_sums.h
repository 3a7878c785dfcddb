// Sums gradients over ranks that share one copy of a model, for elements that several ranks hold but of which each rank
// computed only a part of the gradient (nn::ShardLayout). Under sequence parallelism these are norms, positions and the
// biases of row-parallel layers; otherwise key/value heads that ranks share, and the table that the first and last
// pipeline stage share. After these sums the ranks have the same gradient and update equally.
//
// With S the bytes of such gradients that a rank keeps of a bucket, and n ranks in a group:
//   memory         S while the sum is in flight, if the elements are not contiguous (Category::kCommunication)
//   communication  one all-reduce for each bucket and group: each rank sends 2 S (n - 1) / n bytes, once a step for any
//                  number of micro-batches, in the type in which gradients accumulate
//   compute        copies of S into a message and back, if the elements are not contiguous
// The sums of a bucket overlap with the reductions of the buckets after it.
// Limits: the ranks of a group must hold the same elements in the same order. Along tp they do, since all ranks have
// parameters of the same shapes. A table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include <vector>

#include "core/nn/context.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

// The sums of one bucket.
class HolderSums {
 public:
  // `kept`: the parts of parameters in what this rank keeps of the bucket.
  HolderSums(const std::vector<BucketPart>& kept, const Sharers& sharers);
  bool empty() const { return messages_.empty(); }

  struct Sending {
    Tensor elements;  // contiguous; the sum's own, or copies
    Work work;
  };
  // Starts to sum. `gradients`: what this rank keeps of the bucket, on the device.
  std::vector<Sending> Start(nn::Context& ctx, const Tensor& gradients) const;
  // For work launched from now on, `gradients` holds the sums.
  void Finish(nn::Context& ctx, std::vector<Sending> sending, const Tensor& gradients) const;

 private:
  struct Stretch {
    int64_t first, count;  // elements of what this rank keeps
  };
  struct Message {
    ProcessGroup* group;
    std::vector<Stretch> stretches;
    int64_t elements = 0;
  };
  void Add(ProcessGroup* group, const Stretch& stretch);

  std::vector<Message> messages_;
};

}  // namespace twofold
