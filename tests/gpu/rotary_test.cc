// Rotary positions: heads of whole packs and odd ones, what is behind the heads, positions of a part of a sequence.
#include <cmath>

#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace rotary_test {

class GpuRotary : public GpuTest {};

struct TypeCase {
  DType type;
  double tolerance;
};  // narrow: one rounding
constexpr TypeCase kTypes[] = {{DType::kF64, 1e-12}, {DType::kF32, 1e-6}, {DType::kBF16, 4e-3}, {DType::kF16, 5e-4}};

TEST_F(GpuRotary, Table) {
  for (const DType type : {DType::kF64, DType::kF32}) {
    for (const int64_t half : {1, 5, 32, 131}) {
      ExpectLikeCpu(type, type == DType::kF64 ? 1e-12 : 1e-6, [=](Operands& a) -> ops::Op {
        std::vector<double> frequencies;
        for (int64_t i = 0; i < half; ++i)
          frequencies.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half)));
        return ops::RotaryTable{.table = a.OutOf({37, 2 * half}, type), .frequencies = frequencies};
      });
    }
  }
}

struct Case {
  int64_t samples, length, heads, head_dim, rest;
};
constexpr Case kCases[] = {{2, 5, 1, 2, 0},  {1, 33, 3, 6, 1}, {2, 7, 5, 32, 64}, {1, 3, 9, 64, 127},
                           {1, 2, 0, 4, 33}, {2, 3, 4, 16, 0}, {0, 3, 4, 16, 0}};

TEST_F(GpuRotary, TurnsAndCopies) {
  for (const TypeCase& t : kTypes) {
    for (const Case& k : kCases) {
      for (const bool inverse : {false, true}) {
        for (const bool in_place : {false, true}) {
          ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
            const Shape shape = {k.samples, k.length, k.heads * k.head_dim + k.rest};
            const Tensor x = a.Normal(shape);
            return ops::Rotary{.x = x,
                               .table = a.WideNormal({k.length, k.head_dim}),
                               .y = in_place ? a.InOut(x) : a.Out(shape),
                               .heads = k.heads,
                               .inverse = inverse};
          });
        }
      }
    }
  }
}

// Two chunks of a longer sequence, as context parallelism deals them.
TEST_F(GpuRotary, PositionsOfAPart) {
  for (const TypeCase& t : kTypes) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::Rotary{.x = a.Normal({2, 6, 40}),
                         .table = a.WideNormal({12, 16}),
                         .y = a.Out({2, 6, 40}),
                         .heads = 2,
                         .positions = {.block = 3, .blocks = 2, .offset = {3, 9}}};
    });
  }
}

}  // namespace rotary_test
}  // namespace twofold
