// How activations pass between layers that every rank of a tensor-parallel group does on its own rows or on all of them, and layers
// that are split: the operators f and g of Shoeybi et al. 2019 (figure 3), and g and g-bar of Korthikanti et al. 2022 (figure 5).
//
// With n ranks, of a tensor of M bytes:
//     without sequence parallelism    every rank has all rows       Enter: nothing.     Leave: all-reduce, 2 M (n - 1) / n bytes sent
//     with it                         rank r has rows [r, r + 1) / n  Enter: all-gather.  Leave: reduce-scatter, M (n - 1) / n each
// so that the two ways move as many bytes, and the second keeps 1 / n of what lies between. A pass back is the other of the two.
//
// Rows. A rank's part of [b, t, h] has the shape [b, t / n, h] and holds rows [r b t / n, (r + 1) b t / n) of the [b t, h] that
// it is flattened: gathered along rows it is the whole, whatever b, and its shape says what the whole's is. n divides t.
#pragma once

#include <utility>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/rows.h"

namespace twofold {

struct TensorParallelOptions {
  bool sequence_parallel = false;
  bool overlap = true;  // communication with the products that do not wait for it; false: wait for every call
};

// A tensor on its way: use it after Wait.
class PendingTensor {
 public:
  PendingTensor(Tensor tensor, Work work) : tensor_(std::move(tensor)), work_(std::move(work)) {}
  Tensor Wait(nn::Context& ctx) {
    std::exchange(work_, Work()).WaitOn(ctx.stream);
    return std::move(tensor_);
  }

 private:
  Tensor tensor_;
  Work work_;
};

class TensorParallelExchange {
 public:
  // `group` outlives it.
  TensorParallelExchange(ProcessGroup& group, const TensorParallelOptions& options) : group_(group), options_(options) {}
  ProcessGroup& group() const { return group_; }
  bool splits_rows() const { return options_.sequence_parallel && group_.size() > 1; }

  // From this rank's rows to all rows.
  PendingTensor Enter(nn::Context& ctx, const Tensor& x) const {
    if (!splits_rows()) return {x, Work()};
    Tensor all = ctx.Activation(WithRows(x.shape(), x.dim(1) * group_.size()), x.dtype());
    Work work = group_.AllGather(all, x);
    return Started(ctx, std::move(all), std::move(work));
  }
  // From what is each rank's part of a sum, of all rows, to this rank's rows of the sum. Takes the tensor over.
  PendingTensor Leave(nn::Context& ctx, Tensor partial) const {
    if (!splits_rows()) {
      Work work = group_.AllReduce(partial);
      return Started(ctx, std::move(partial), std::move(work));
    }
    TWOFOLD_CHECK(partial.dim(1) % group_.size() == 0, "tensor-parallel ranks share the rows of a sequence evenly");
    Tensor own = ctx.Activation(WithRows(partial.shape(), partial.dim(1) / group_.size()), partial.dtype());
    Work work = group_.ReduceScatter(own, partial);
    return Started(ctx, std::move(own), std::move(work));
  }
  // This rank's rows of a tensor that has them all.
  Tensor OwnRows(const Tensor& all) const {
    if (!splits_rows()) return all;
    const Shape own = WithRows(all.shape(), all.dim(1) / group_.size());
    return all.Slice(group_.rank() * own.numel(), own);
  }

 private:
  static Shape WithRows(const Shape& shape, int64_t rows) {
    TWOFOLD_CHECK_EQ(shape.rank(), 3);
    return Shape{shape[0], rows, shape[2]};
  }
  PendingTensor Started(nn::Context& ctx, Tensor tensor, Work work) const {
    if (!options_.overlap) std::exchange(work, Work()).WaitOn(ctx.stream);
    return {std::move(tensor), std::move(work)};
  }

  ProcessGroup& group_;
  TensorParallelOptions options_;
};

}  // namespace twofold
