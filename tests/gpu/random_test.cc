// Random numbers and dropout: what is drawn is what the CPU draws. Tolerances: own_rounding.h.
#include "core/base/philox.h"
#include "tests/gpu/own_rounding.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace random_test {

using Random = GpuTest;

constexpr PhiloxKey kKey = MakeKey(7, "gpu test");
constexpr int64_t kSizes[] = {0, 1, 7, 31, 1027, 5000};
// Wholes; ranges that begin anywhere; columns of rows, whose stretches end anywhere.
const ops::IndexMap kPlaces[] = {{},
                                 {.first = 4},
                                 {.first = (int64_t{1} << 34) + 3},
                                 {.block = 24, .stride = 100, .offset = {8}},
                                 {.first = 5, .block = 7, .stride = 64, .blocks = 2, .offset = {3, 41}}};

TEST_F(Random, Fill) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (const ops::IndexMap& where : kPlaces) {
        for (const auto distribution : {ops::RandomFill::kNormal, ops::RandomFill::kUniform}) {
          // A normal number is an F32 of double arithmetic: its last bit may differ.
          const double tolerance = std::max(OwnRounding(t), distribution == ops::RandomFill::kNormal ? 1e-7 : 0);
          ExpectLikeCpu(t, tolerance, [=](Operands& o) -> ops::Op {
            return ops::RandomFill{
                .distribution = distribution, .out = o.Out({n}), .a = -0.5, .b = 1.25, .key = kKey, .where = where};
          });
        }
      }
    }
  }
}

TEST_F(Random, Dropout) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (const ops::IndexMap& where : kPlaces) {
        for (double p : {0.0, 0.1, 0.5}) {
          ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
            return ops::Dropout{.x = o.Normal({n}), .y = o.Out({n}), .p = p, .key = kKey, .where = where};
          });
        }
        ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {  // in place
          const Tensor x = o.InOut(o.Normal({n}));
          return ops::Dropout{.x = x, .y = x, .p = 0.3, .key = kKey, .where = where};
        });
      }
    }
    ExpectLikeCpu(t, 0, [](Operands& o) -> ops::Op {
      return ops::Dropout{.x = o.Normal({65}), .y = o.Out({65}), .p = 1, .key = kKey};
    });
  }
}

TEST_F(Random, MaskedDropout) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (const ops::IndexMap& where : kPlaces) {
        ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
          const Tensor x = o.Normal({n}), y = o.Out({n});
          return ops::MaskedDropoutForward{
              .x = x, .y = y, .mask = o.OutOf({n}, DType::kU8), .p = 0.2, .key = kKey, .where = where};
        });
      }
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
        return ops::MaskedDropoutBackward{
            .dy = o.Normal({n}), .mask = o.Ids({n}, 2, DType::kU8), .dx = o.Out({n}), .p = 0.2};
      });
      ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {  // in place
        const Tensor dy = o.InOut(o.Normal({n}));
        return ops::MaskedDropoutBackward{.dy = dy, .mask = o.Ids({n}, 2, DType::kU8), .dx = dy, .p = 0.2};
      });
    }
  }
}

TEST_F(Random, KeepsAnElementWhoseNumberIsP) {
  const float p = UniformAt(kKey, 5);
  ExpectLikeCpu(DType::kF32, 1e-6, [p](Operands& o) -> ops::Op {
    const Tensor x = o.Normal({8}), y = o.Out({8});
    return ops::MaskedDropoutForward{.x = x, .y = y, .mask = o.OutOf({8}, DType::kU8), .p = p, .key = kKey};
  });
}

}  // namespace random_test
}  // namespace twofold
