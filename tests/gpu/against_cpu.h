// Compares an operation on a GPU with the same operation on the CPU in f64, on the same random operands.
//
//     ExpectLikeCpu(DType::kBF16, 1e-2, [](Operands& o) -> ops::Op {
//       return ops::AddRelu{.a = o.Normal({33, 257}), .b = o.Normal({33, 257}), .out = o.Out({33, 257})};
//     });
//
// The function is called once for each device. Both devices get equal random values: they are first rounded to the type
// under test. Tensors requested as outputs are filled with poison (NaN, or 0xff bytes for integers) on both devices,
// and compared afterwards. Operands must be unchanged unless requested by InOut.
//
// `tolerance` bounds ||got - want|| / ||want|| over each output. A single element may be off by at most 20 times the
// tolerance times the largest expected magnitude. In addition an element may be off by 4e-6, or by `tolerance` if that
// is less: operands are about 1 in size and may cancel out. Integers must be equal.
#pragma once

#include <functional>

#include "core/device/ops.h"
#include "gtest/gtest.h"
#include "kernels/cuda/library_attention.h"

namespace twofold {

class Operands {
 public:
  virtual ~Operands() = default;
  virtual DType type() const = 0;  // of the operands: the type under test, or F64 for the CPU
  // "(f32)" of core/device/ops/op.h for type().
  DType wide() const { return ops::AccumulationType(type()); }

  // Operands. Their type is type(), or wide() for the functions named so.
  virtual Tensor Normal(Shape shape, double deviation = 1, double mean = 0) = 0;
  virtual Tensor Uniform(Shape shape, double low, double high) = 0;
  virtual Tensor WideNormal(Shape shape, double deviation = 1, double mean = 0) = 0;
  virtual Tensor WideUniform(Shape shape, double low, double high) = 0;
  virtual Tensor Ids(Shape shape, int64_t limit, DType type = DType::kI32) = 0;  // [0, limit)
  // on the CPU, F64 instead of a float type
  virtual Tensor Values(Shape shape, std::function<double(int64_t)> value, DType type) = 0;
  // Outputs.
  virtual Tensor Out(Shape shape) = 0;
  virtual Tensor WideOut(Shape shape) = 0;
  virtual Tensor OutOf(Shape shape, DType type) = 0;  // on the CPU, F64 instead of a float type
  // Returns the operand; it is written too and compared afterwards.
  virtual Tensor InOut(Tensor operand) = 0;
};

// Which attention kernels the device has, and which guarantees hold for them.
struct OnDevice {
  cuda::AttentionKernels attention = cuda::AttentionKernels::kOwn;
  bool any_alignment = true, same_bits = true;
};

// The seed is the test's (tests/seed.h). There are three runs. In one of them each tensor is aligned to its element
// size only, in the others to 16 bytes. The two aligned runs must give the same bits. If all cases would take too long,
// TWOFOLD_TEST_SAMPLE=3 runs one in three of a test's cases, the same ones for the same seed; --full runs all.
void ExpectLikeCpu(DType type, double tolerance, const std::function<ops::Op(Operands&)>& build,
                   const OnDevice& device = OnDevice());

// Base class of all tests on a GPU: skips the test, with a reason, if there is none.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace twofold
