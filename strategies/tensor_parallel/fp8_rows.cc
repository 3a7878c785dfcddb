#include "strategies/tensor_parallel/fp8_rows.h"

namespace twofold {

nn::ProductOperand RoundOwnRows(nn::Context& ctx, const TensorParallelExchange& exchange, const Tensor& own,
                                ops::Fp8Format format, const Tensor& codes) {
  ops::Fp8Scaling scaling{
      .scales = ctx.Activation(Shape{1, 1}, DType::kF32), .format = format, .blocks = ops::Fp8Blocks::kTensor};
  ctx.Launch(ops::QuantiseFp8{.in = nn::Rows(own), .codes = {}, .scaling = scaling, .part = ops::QuantiseFp8::kScale});
  exchange.group().AllReduce(scaling.scales, ReduceOp::kMax).WaitOn(ctx.stream);
  ctx.Launch(ops::QuantiseFp8{
      .in = nn::Rows(own), .codes = nn::Rows(codes), .scaling = scaling, .part = ops::QuantiseFp8::kCodes});
  return {codes, scaling};
}

}  // namespace twofold
