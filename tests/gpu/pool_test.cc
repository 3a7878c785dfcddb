#include <cmath>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/rounding.h"

namespace twofold {
namespace pool_test {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
struct Pool {
  int64_t images, height, width, channels, size, stride, padding;
  int64_t Pooled(int64_t n) const { return (n + 2 * padding - size) / stride + 1; }
  Shape in() const { return {images, height, width, channels}; }
  Shape out() const { return {images, Pooled(height), Pooled(width), channels}; }
};
constexpr Pool kPools[] = {{2, 8, 8, 16, 2, 2, 0},  {3, 7, 9, 31, 3, 2, 1},  {1, 5, 5, 1, 3, 1, 1},
                           {2, 11, 6, 40, 2, 3, 1}, {1, 1, 1, 257, 1, 1, 0}, {2, 16, 16, 33, 16, 5, 8},
                           {1, 4, 70, 8, 2, 2, 0}};

class PoolOnGpu : public GpuTest {};

TEST_F(PoolOnGpu, MaxForward) {
  for (DType type : kFloats) {
    for (const Pool& p : kPools) {
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        return ops::MaxPoolForward{.x = o.Normal(p.in()),
                                   .y = o.Out(p.out()),
                                   .chosen = o.OutOf(p.out(), DType::kU8),
                                   .size = p.size,
                                   .stride = p.stride,
                                   .padding = p.padding};
      });
    }
  }
}

// The first of equals is chosen, a NaN before all numbers, infinities as numbers.
TEST_F(PoolOnGpu, MaxOfEqualsAndOfNan) {
  for (DType type : kFloats) {
    for (const Pool& p : kPools) {
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        const auto value = [](int64_t i) {
          const int64_t draw = i * 2654435761 % 97;
          return draw < 5 ? std::nan("") : draw < 9 ? -INFINITY : draw < 11 ? INFINITY : static_cast<double>(draw % 3);
        };
        return ops::MaxPoolForward{.x = o.Values(p.in(), value, type),
                                   .y = o.Out(p.out()),
                                   .chosen = o.OutOf(p.out(), DType::kU8),
                                   .size = p.size,
                                   .stride = p.stride,
                                   .padding = p.padding};
      });
    }
  }
}

// A place in each window that lies inside the image.
int64_t ChosenOf(const Pool& p, int64_t i) {
  const int64_t pixel = i / p.channels, column = pixel % p.Pooled(p.width),
                row = pixel / p.Pooled(p.width) % p.Pooled(p.height);
  const auto inside = [&](int64_t at, int64_t limit, int64_t draw) {
    const int64_t start = at * p.stride - p.padding, first = std::max<int64_t>(0, -start),
                  end = std::min(p.size, limit - start);
    return first + draw % (end - first);
  };
  const int64_t draw = i * 2654435761 % 1009;
  return inside(row, p.height, draw) * p.size + inside(column, p.width, draw / 7);
}

TEST_F(PoolOnGpu, MaxBackward) {
  for (DType type : kFloats) {
    for (const Pool& p : kPools) {
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        const auto chosen = [&](int64_t i) { return static_cast<double>(ChosenOf(p, i)); };
        return ops::MaxPoolBackward{.dy = o.Normal(p.out()),
                                    .chosen = o.Values(p.out(), chosen, DType::kU8),
                                    .dx = o.Out(p.in()),
                                    .size = p.size,
                                    .stride = p.stride,
                                    .padding = p.padding};
      });
    }
  }
}

TEST_F(PoolOnGpu, Average) {
  for (DType type : kFloats) {
    for (const Shape& shape : {Shape{2, 7, 7, 33}, {3, 1, 1, 8}, {1, 65, 257}, {5, 3, 64}, {2, 1}}) {
      const Shape out{shape[0], shape[-1]};
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        return ops::AveragePoolForward{.x = o.Normal(shape, 1, 0.5), .y = o.Out(out)};
      });
      ExpectLikeCpu(type, Rounding(type), [&](Operands& o) -> ops::Op {
        return ops::AveragePoolBackward{.dy = o.Normal(out), .dx = o.Out(shape)};
      });
    }
  }
}

}  // namespace pool_test
}  // namespace twofold
