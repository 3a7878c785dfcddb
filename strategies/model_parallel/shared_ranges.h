// What ranks that share one copy of a model all have of it: under tensor parallelism norms, positions, biases of row-parallel layers
// and, where heads of keys and values are fewer than ranks, those; in a pipeline the table of a tied head. Here such ranges of the
// layout's slices are messages that all their holders exchange: their gradients (gradient_sums.h), their first values
// (initial_values.h).
//
// One message a group. Where its ranges lie in one piece of the device's memory it is that piece; else they are copied into it and
// back (Category::kCommunication, while it travels).
// Limits: the ranks of a group must hold the same elements in the same order. They do along tp, where all ranks have parameters of
// the same shapes; a table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/device/transfers.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/model_parallel/slices.h"

namespace twofold {

// By what they share. Null: nobody, and no parameter of this rank asks for it.
struct Sharers {
  ProcessGroup* tensor = nullptr;     // Cut::Sum::kTensor
  ProcessGroup* key_value = nullptr;  // kKeyValue
  ProcessGroup* embedding = nullptr;  // kEmbedding
  bool any() const { return several(tensor) || several(key_value) || several(embedding); }  // alike on ranks that share the batch
  static bool several(const ProcessGroup* group) { return group != nullptr && group->size() > 1; }
};

// One rank's; all handed in outlives it.
class SharedRanges {
 public:
  enum class Of { kValues, kGradients };
  // `shared`: with whom this rank exchanges a range; kNone: with nobody.
  SharedRanges(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers, Of of,
               absl::FunctionRef<nn::Cut::Sum(const SliceRange&)> shared);
  // What its messages take, as a text: ranks of equal ones allocate alike. Where shards cut parameters anywhere, it differs from shard
  // to shard.
  std::string Footprint() const;
  // For what is launched next, the ranges hold what `exchange` makes of them in place. Collective over each group.
  void Exchange(absl::FunctionRef<Work(ProcessGroup&, Tensor&)> exchange);

 private:
  struct Message {
    ProcessGroup* group;
    std::vector<Tensor> pieces;  // views into the slices' tensors, in their order
    int64_t elements = 0;
  };
  bool LiesOnHost(const Message& message) const { return &message.pieces[0].allocator() != &ctx_.device.allocator(); }
  bool IsCopied(const Message& message) const { return message.pieces.size() > 1 || LiesOnHost(message); }
  void CopyOnDevice(const Message& message, const Tensor& whole, bool in);
  void CopyFromHost(const Message& message, const Tensor& whole, bool in);

  nn::Context& ctx_;
  std::vector<Message> messages_;
};

}  // namespace twofold
