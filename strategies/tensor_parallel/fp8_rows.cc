#include "strategies/tensor_parallel/fp8_rows.h"

namespace twofold {

nn::ProductOperand RoundOwnRows(nn::Context& ctx, const TensorParallelExchange& exchange, const Tensor& own,
                                ops::Fp8Format format, const Tensor& codes) {
  using ops::QuantiseFp8;
  Tensor largest = ctx.Activation(Shape{1, 1}, DType::kI32);
  const ops::Fp8Scaling scaling{
      .scales = ctx.Activation(Shape{1, 1}, DType::kF32), .format = format, .blocks = ops::Fp8Blocks::kTensor};
  ctx.Launch(
      QuantiseFp8{.in = nn::Rows(own), .codes = {}, .scaling = {}, .part = QuantiseFp8::kLargest, .largest = largest});
  exchange.group().AllReduce(largest, ReduceOp::kMax).WaitOn(ctx.stream);
  ctx.Launch(QuantiseFp8{.in = nn::Rows(own),
                         .codes = nn::Rows(codes),
                         .scaling = scaling,
                         .part = QuantiseFp8::kCodes,
                         .largest = largest});
  return {codes, scaling};
}

}  // namespace twofold
