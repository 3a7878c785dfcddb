#include "strategies/tensor_parallel/ring_product.h"

#include <array>
#include <utility>

namespace twofold {
namespace {

enum MessageTag : Tag { kRows, kSums };

struct Ring {
  explicit Ring(const TensorParallelExchange& exchange)
      : group(exchange.group()), rank(group.rank()), size(group.size()) {}
  int After(int places) const { return (rank + places + size) % size; }
  ProcessGroup& group;
  const int rank, size;
};

}  // namespace

// At step i this rank has the rows of the rank i places after it, and passes them on to the rank before it.
void GatherInRing(nn::Context& ctx, const TensorParallelExchange& exchange, const Tensor& own, const Tensor* all,
                  absl::FunctionRef<void(const Tensor& rows, int rank)> product) {
  const Ring ring(exchange);
  Tensor rows = own;
  for (int i = 0; i < ring.size; ++i) {
    Tensor next;
    PendingTensor passing({}, Work());
    if (i + 1 < ring.size) {
      next = all != nullptr ? exchange.RowsOf(*all, ring.After(i + 1)) : ctx.Activation(own.shape(), own.dtype());
      passing = exchange.Pass(ctx, {.send = rows, .to = ring.After(-1), .receive = next, .from = ring.After(1)}, kRows);
    }
    product(rows, ring.After(i));
    passing.Wait(ctx);
    rows = std::move(next);
  }
}

// A rank's rows are summed on their way around the ring, beginning at the rank after it and ending at the rank itself.
Tensor ScatterInRing(nn::Context& ctx, const TensorParallelExchange& exchange, const Shape& own, DType dtype,
                     absl::FunctionRef<void(int rank, const Tensor& out)> product) {
  const Ring ring(exchange);
  Tensor sum;
  PendingTensor others({}, Work());  // what the ranks before this one have summed
  for (int i = 0; i < ring.size; ++i) {
    Tensor part = ctx.Activation(own, dtype);
    product(ring.After(-1 - i), part);
    const Tensor before = others.Wait(ctx);
    if (i > 0) ctx.Launch(ops::Add{before, part, part});
    sum = std::move(part);
    if (i + 1 == ring.size) break;
    others = exchange.Pass(
        ctx, {.send = sum, .to = ring.After(1), .receive = ctx.Activation(own, dtype), .from = ring.After(-1)}, kSums);
  }
  return sum;
}

}  // namespace twofold
