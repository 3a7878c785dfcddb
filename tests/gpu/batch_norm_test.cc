#include "tests/gpu/against_cpu.h"
#include "tests/gpu/rounding.h"

namespace twofold {
namespace batch_norm_test {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
// Rows and channels; the last ones have several slabs, and several tiles of channels.
const Shape kShapes[] = {{1, 1}, {2, 31}, {3, 5, 5, 8}, {700, 33}, {4100, 3}, {129, 257}, {5, 2200}};

class BatchNormOnGpu : public GpuTest {};

// Sums of many terms of both signs may be small: their error is that of the terms.
double Sums(DType type) { return type == DType::kF64 ? 1e-12 : 2e-5; }

TEST_F(BatchNormOnGpu, Statistics) {
  for (DType type : kFloats) {
    for (const Shape& shape : kShapes) {
      for (const double mean : {0.0, 30.0}) {  // far from zero: squares are of deviations
        ExpectLikeCpu(type, Sums(type), [&](Operands& o) -> ops::Op {
          return ops::BatchNormStatistics{.x = o.Normal(shape, 1, mean), .statistics = o.WideOut({2, shape[-1]})};
        });
      }
    }
  }
}

// The ranks' parts, of means and squares of 50 rows.
Tensor Parts(Operands& o, int64_t parts, int64_t channels) {
  const auto value = [channels](int64_t i) {
    const double draw = static_cast<double>(i * 2654435761 % 1009) / 1009;
    return i / channels % 2 == 0 ? draw - 0.5 : 10 + 80 * draw;
  };
  return o.Values({parts, 2, channels}, value, o.wide());
}

TEST_F(BatchNormOnGpu, Finish) {
  for (DType type : {DType::kF64, DType::kF32}) {
    for (DType running : {type, DType::kF64}) {
      for (const int64_t channels : {1, 33, 257}) {
        for (const int64_t parts : {0, 1, 3}) {
          for (const int64_t rows : {1, 50}) {
            const double tolerance = type == DType::kF64 ? 1e-13 : 1e-6;
            ExpectLikeCpu(type, tolerance, [&](Operands& o) -> ops::Op {
              const auto mean = [](int64_t i) { return 0.1 * static_cast<double>(i % 7) - 0.3; };
              const auto variance = [](int64_t i) { return 0.5 + 0.25 * static_cast<double>(i % 5); };
              return ops::BatchNormFinish{.parts = parts == 0 ? Tensor() : Parts(o, parts, channels),
                                          .running_mean = o.InOut(o.Values({channels}, mean, running)),
                                          .running_variance = o.InOut(o.Values({channels}, variance, running)),
                                          .mean = o.WideOut({channels}),
                                          .rstd = o.WideOut({channels}),
                                          .rows = rows};
            });
          }
        }
      }
    }
  }
}

TEST_F(BatchNormOnGpu, Forward) {
  for (DType type : kFloats) {
    for (const Shape& shape : kShapes) {
      for (const bool relu : {false, true}) {
        const int64_t c = shape[-1];
        ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
          return ops::BatchNormForward{.x = o.Normal(shape),
                                       .gamma = o.Normal({c}),
                                       .beta = o.Normal({c}),
                                       .mean = o.WideNormal({c}),
                                       .rstd = o.WideUniform({c}, 0.5, 2),
                                       .y = o.Out(shape),
                                       .relu = relu};
        });
      }
    }
  }
}

TEST_F(BatchNormOnGpu, Sums) {
  for (DType type : kFloats) {
    for (const Shape& shape : kShapes) {
      for (const bool relu : {false, true}) {
        const int64_t c = shape[-1];
        ExpectLikeCpu(type, Sums(type), [&](Operands& o) -> ops::Op {
          return ops::BatchNormSums{.dy = o.Normal(shape),
                                    .x = o.Normal(shape),
                                    .y = relu ? o.Normal(shape) : Tensor(),
                                    .mean = o.WideNormal({c}),
                                    .rstd = o.WideUniform({c}, 0.5, 2),
                                    .sums = o.WideOut({2, c})};
        });
      }
    }
  }
}

TEST_F(BatchNormOnGpu, Backward) {
  for (DType type : kFloats) {
    for (const Shape& shape : kShapes) {
      for (const bool relu : {false, true}) {
        for (const bool in_place : {false, true}) {
          const int64_t c = shape[-1];
          ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
            const Tensor dy = o.Normal(shape);
            return ops::BatchNormBackward{.dy = dy,
                                          .x = o.Normal(shape),
                                          .y = relu ? o.Normal(shape) : Tensor(),
                                          .gamma = o.Normal({c}),
                                          .mean = o.WideNormal({c}),
                                          .rstd = o.WideUniform({c}, 0.5, 2),
                                          .sums = o.WideNormal({2, c}, 100),
                                          .dx = in_place ? o.InOut(dy) : o.Out(shape),
                                          .rows = 100};
          });
        }
      }
    }
  }
}

}  // namespace batch_norm_test
}  // namespace twofold
