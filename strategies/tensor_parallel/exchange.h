// Moves activations between tensor-parallel layers and the layers around them. Every rank computes the layers around
// them either on all rows or, with sequence parallelism, on its own rows. These are the operators f and g of Shoeybi et
// al. 2019 (figure 3), and g and g-bar of Korthikanti et al. 2022 (figure 5).
//
// With n ranks and a tensor of M bytes:
//     without sequence parallelism  every rank has all rows
//                                   Enter: nothing. Leave: all-reduce, 2 M (n - 1) / n bytes sent
//     with sequence parallelism     rank r has the r-th of n equal parts of the rows
//                                   Enter: all-gather. Leave: reduce-scatter, M (n - 1) / n bytes sent each
// Both send the same number of bytes; with sequence parallelism a rank keeps 1 / n of the activations in between. The
// backward pass of Enter is Leave, and the other way round.
//
// Rows. A rank's part of [b, t, h] has the shape [b, t / n, h] and holds rows [r b t / n, (r + 1) b t / n) of the
// flattened [b t, h]. So gathering along rows gives the whole for any b, and the shape of a part determines that of the
// whole. n divides t.
#pragma once

#include <utility>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/rows.h"

namespace twofold {

struct TensorParallelOptions {
  bool sequence_parallel = false;
  bool overlap = true;  // overlap communication with independent matrix products; false: wait for every call
};

// A tensor that is being communicated. It may be used after Wait.
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
  // `group` must outlive it.
  TensorParallelExchange(ProcessGroup& group, const TensorParallelOptions& options)
      : group_(group), options_(options) {}
  ProcessGroup& group() const { return group_; }
  bool splits_rows() const { return options_.sequence_parallel && group_.size() > 1; }

  // From this rank's rows to all rows.
  PendingTensor Enter(nn::Context& ctx, const Tensor& x) const {
    if (!splits_rows()) return {x, Work()};
    Tensor all = ctx.Activation(WithRows(x.shape(), x.dim(1) * group_.size()), x.dtype());
    Work work = group_.AllGather(all, x);
    return Started(ctx, std::move(all), std::move(work));
  }
  // Sums the ranks' `partial` tensors, which have all rows; returns this rank's rows of the sum. Takes over the tensor.
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
  // This rank's rows of a tensor with all rows.
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
