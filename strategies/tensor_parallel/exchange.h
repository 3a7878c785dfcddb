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

#include <array>
#include <utility>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/rows.h"

namespace twofold {

struct TensorParallelOptions {
  bool sequence_parallel = false;
  bool overlap = true;  // overlap communication with independent matrix products; false: wait for every call
  bool rings = false;   // with sequence_parallel: overlap it with products that depend on it, too (ring_product.h)
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
  bool rings() const { return options_.rings && splits_rows(); }
  int64_t parts() const { return rings() ? group_.size() : 1; }  // of a layer's product

  // From this rank's rows to all rows.
  PendingTensor Enter(nn::Context& ctx, const Tensor& x) const {
    if (!splits_rows()) return {x, Work()};
    Tensor all = ctx.Activation(WholeOf(x.shape()), x.dtype());
    Work work = group_.AllGather(all, x);
    return Started(ctx, std::move(all), std::move(work));
  }
  // Sums the ranks' `partial` tensors, which have all rows; returns this rank's rows of the sum. Takes over the tensor.
  PendingTensor Leave(nn::Context& ctx, Tensor partial) const {
    if (!splits_rows()) {
      Work work = group_.AllReduce(partial);
      return Started(ctx, std::move(partial), std::move(work));
    }
    Tensor own = ctx.Activation(PartOf(partial.shape()), partial.dtype());
    Work work = group_.ReduceScatter(own, partial);
    return Started(ctx, std::move(own), std::move(work));
  }
  // This rank's rows of a tensor with all rows.
  Tensor OwnRows(const Tensor& all) const { return splits_rows() ? RowsOf(all, group_.rank()) : all; }

  // ---- With splits_rows() ----
  Tensor RowsOf(const Tensor& all, int rank) const {
    const Shape own = PartOf(all.shape());
    return all.Slice(rank * own.numel(), own);
  }
  Shape PartOf(const Shape& all) const {
    TWOFOLD_CHECK(all[1] % group_.size() == 0, "tensor-parallel ranks share the rows of a sequence evenly");
    return WithRows(all, all[1] / group_.size());
  }
  Shape WholeOf(const Shape& part) const { return WithRows(part, part[1] * group_.size()); }
  // Sends to one rank and receives from another at once. Returns what is received; what is sent is held until then.
  struct Passing {
    Tensor send;
    int to;
    Tensor receive;
    int from;
  };
  PendingTensor Pass(nn::Context& ctx, Passing p, Tag tag) const {
    const std::array<P2p, 2> messages = {P2p{P2p::kSend, p.send, p.to, tag}, P2p{P2p::kRecv, p.receive, p.from, tag}};
    Work work = group_.Batch(messages);
    return Started(ctx, std::move(p.receive), std::move(work));
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
