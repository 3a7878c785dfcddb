// Softmax of rows, as attention that stores its scores has it.
#include <cstdint>

#include "core/base/strings.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/attention_cases.h"

namespace twofold {
namespace softmax_test {

using attention_cases::kTypes;
using attention_cases::Tolerance;

class SoftmaxOnGpu : public GpuTest {};

// Rows of a warp, of a block, and longer; multiples of what a load takes and not.
TEST_F(SoftmaxOnGpu, Forward) {
  for (const DType type : kTypes) {
    for (const int64_t n : {1, 31, 64, 257, 1030, 1536}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " columns ", n));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        return ops::SoftmaxForward{.x = o.Normal({2, 3, n}, 3), .y = o.Out({2, 3, n}), .causal = false};
      });
    }
    for (const int64_t t : {1, 17, 72, 129}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " causal ", t));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        const Tensor x = o.InOut(o.Normal({2, t, t}, 3));
        return ops::SoftmaxForward{.x = x, .y = x, .causal = true};
      });
    }
    SCOPED_TRACE(StrCat(DTypeName(type), " long rows"));
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      return ops::SoftmaxForward{.x = o.Normal({1, 2, 17000}, 3), .y = o.Out({1, 2, 17000}), .causal = false};
    });
  }
}
TEST_F(SoftmaxOnGpu, Backward) {
  for (const DType type : kTypes) {
    for (const int64_t n : {1, 31, 64, 257, 1030, 1536, 9000}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " columns ", n));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        return ops::SoftmaxBackward{.y = o.Uniform({3, n}, 0, 0.1), .dy = o.Normal({3, n}), .dx = o.Out({3, n})};
      });
    }
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      const Tensor dy = o.InOut(o.Normal({5, 72}));
      return ops::SoftmaxBackward{.y = o.Uniform({5, 72}, 0, 0.1), .dy = dy, .dx = dy};
    });
  }
}

}  // namespace softmax_test
}  // namespace twofold
