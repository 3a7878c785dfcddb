#include <tuple>
#include <vector>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/rounding.h"

namespace twofold {
namespace matmul_test {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
using Sizes = std::tuple<int64_t, int64_t, int64_t>;  // m, n, k

class MatMulOnGpu : public GpuTest {};

ops::MatMul Product(Operands& o, const Sizes& sizes, bool ta, bool tb, Tensor out, Tensor bias = {},
                    bool accumulate = false) {
  const auto [m, n, k] = sizes;
  return {.a = o.Normal(ta ? Shape{k, m} : Shape{m, k}),
          .b = o.Normal(tb ? Shape{n, k} : Shape{k, n}),
          .out = std::move(out),
          .bias = std::move(bias),
          .transpose_a = ta,
          .transpose_b = tb,
          .accumulate = accumulate};
}

TEST_F(MatMulOnGpu, OfAllTypesAndTransposes) {
  for (DType type : kFloats) {
    for (int way = 0; way < 4; ++way) {
      for (const Sizes& sizes :
           {Sizes{1, 1, 1}, {31, 33, 1}, {33, 127, 65}, {129, 64, 257}, {1, 257, 127}, {127, 1, 31}}) {
        ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
          return Product(o, sizes, way & 1, way & 2, o.Out({std::get<0>(sizes), std::get<1>(sizes)}));
        });
      }
    }
  }
}

// Gradients may be of another type than what they are the gradients of, and are added to what is there; a bias is of
// the operands' type.
TEST_F(MatMulOnGpu, IntoAnyTypeWithABiasAndAdding) {
  const Sizes sizes{33, 65, 31};
  const Shape shape{33, 65};
  for (DType type : kFloats) {
    for (DType out : kFloats) {
      for (int way = 0; way < 4; ++way) {
        const bool biased = way & 1, accumulate = way & 2;
        ExpectLikeCpu(type, Rounding(type, out), [&](Operands& o) -> ops::Op {
          Tensor to = accumulate ? o.InOut(o.Values(
                                       shape, [](int64_t i) { return 0.25 * static_cast<double>(i % 17) - 2; }, out))
                                 : o.OutOf(shape, out);
          return Product(o, sizes, true, false, std::move(to), biased ? o.Normal({65}) : Tensor(), accumulate);
        });
      }
    }
  }
}

// Columns that the library takes a GELU of, which are multiples of 8, and those that it does not. GELU is taken of sums
// before or after they are rounded: where it is nearly nothing that matters, so that no result is of few elements.
TEST_F(MatMulOnGpu, WithAGelu) {
  for (DType type : kFloats) {
    for (const Sizes& sizes :
         {Sizes{33, 64, 31}, {7, 72, 128}, {1, 40, 1}, {33, 65, 31}, {37, 1, 7}, {0, 8, 3}, {3, 16, 0}}) {
      const Shape shape{std::get<0>(sizes), std::get<1>(sizes)};
      for (const bool biased : {false, true}) {
        ExpectLikeCpu(type, 2 * Rounding(type), [&](Operands& o) -> ops::Op {
          ops::MatMul product = Product(o, sizes, false, true, o.Out(shape), biased ? o.Normal({shape[1]}) : Tensor());
          product.epilogue = ops::MatMul::kGelu, product.aux = o.Out(shape);
          return product;
        });
      }
      ExpectLikeCpu(type, 2 * Rounding(type), [&](Operands& o) -> ops::Op {
        ops::MatMul product = Product(o, sizes, false, false, o.Out(shape));
        product.epilogue = ops::MatMul::kGeluSlope, product.aux = o.Normal(shape, 2);
        return product;
      });
    }
  }
}

TEST_F(MatMulOnGpu, OfNothing) {
  for (DType type : kFloats) {
    for (DType out : kFloats) {
      for (int way = 0; way < 4; ++way) {
        const bool biased = way & 1, accumulate = way & 2;
        for (const Sizes& sizes : {Sizes{3, 5, 0}, {0, 5, 3}, {3, 0, 4}}) {
          const Shape shape{std::get<0>(sizes), std::get<1>(sizes)};
          ExpectLikeCpu(type, Rounding(type, out), [&](Operands& o) -> ops::Op {
            Tensor to = accumulate ? o.InOut(o.Values(
                                         shape, [](int64_t i) { return static_cast<double>(i); }, out))
                                   : o.OutOf(shape, out);
            return Product(o, sizes, false, false, std::move(to), biased ? o.Normal({shape[1]}) : Tensor(), accumulate);
          });
        }
      }
    }
  }
}

}  // namespace matmul_test
}  // namespace twofold
