// An operation on a GPU held against the CPU's in f64, on random operands that both get.
//
//     ExpectLikeCpu(DType::kBF16, 1e-2, [](Operands& o) -> ops::Op {
//       return ops::AddRelu{.a = o.Normal({33, 257}), .b = o.Normal({33, 257}), .out = o.Out({33, 257})};
//     });
//
// The function is called once for each device. The random values are the same for both and can be told apart by no type: they are
// rounded to the type under test first. What is asked for as an output is poisoned (NaN, or 0xff bytes of integers) on both, and
// compared afterwards; what is asked for as an operand must be unchanged unless it was asked for by InOut.
//
// `tolerance`: of ||got - want|| / ||want|| over each output; and a single element may be off by at most 20 times that of the largest
// expected size. Beside that an element may be off by 4e-6, or by `tolerance` if that is less: operands are of sizes about 1, and may
// cancel out. Integers must be equal.
#pragma once

#include <functional>

#include "core/device/ops.h"
#include "gtest/gtest.h"
#include "kernels/cuda/library_attention.h"

namespace twofold {

class Operands {
 public:
  virtual ~Operands() = default;
  virtual DType type() const = 0;  // of the operands: the one under test, or F64 for the CPU
  // "(f32)" of core/device/ops/op.h for type().
  DType wide() const { return ops::AccumulationType(type()); }

  // Operands. Their type is type(), or wide() by the functions whose name says so.
  virtual Tensor Normal(Shape shape, double deviation = 1, double mean = 0) = 0;
  virtual Tensor Uniform(Shape shape, double low, double high) = 0;
  virtual Tensor WideNormal(Shape shape, double deviation = 1, double mean = 0) = 0;
  virtual Tensor WideUniform(Shape shape, double low, double high) = 0;
  virtual Tensor Ids(Shape shape, int64_t limit, DType type = DType::kI32) = 0;  // [0, limit)
  virtual Tensor Values(Shape shape, std::function<double(int64_t)> value, DType type) = 0;  // type F64 on the CPU where it is a float type
  // Outputs.
  virtual Tensor Out(Shape shape) = 0;
  virtual Tensor WideOut(Shape shape) = 0;
  virtual Tensor OutOf(Shape shape, DType type) = 0;  // F64 on the CPU where it is a float type
  // The tensor is written too: compared afterwards. Returns it.
  virtual Tensor InOut(Tensor operand) = 0;
};

// Whose attention the device has, and what then does not hold of it.
struct OnDevice {
  cuda::AttentionKernels attention = cuda::AttentionKernels::kOwn;
  bool any_alignment = true, same_bits = true;
};

// The seed is the test's (tests/seed.h). Each tensor begins at an address that is a multiple of its
// element's size alone in one of the three runs, of 16 bytes in the others. The bits must be the same in the two aligned runs.
// TWOFOLD_TEST_SAMPLE=3 runs one in three of a test's cases, the same with the same seed, where all would take too long; all with --full.
void ExpectLikeCpu(DType type, double tolerance, const std::function<ops::Op(Operands&)>& build, const OnDevice& device = OnDevice());

// For all tests on a GPU: skips, saying why, where there is none.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace twofold
