// The operations: values that define their shapes, cost and workspace. Devices run them. Each operation is in a file of
// the folder ops/. op.h says how to add one.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "core/device/ops/attention.h"
#include "core/device/ops/attention_block.h"
#include "core/device/ops/batch_norm.h"
#include "core/device/ops/codec.h"
#include "core/device/ops/convolution.h"
#include "core/device/ops/elementwise.h"
#include "core/device/ops/experts.h"
#include "core/device/ops/fp8.h"
#include "core/device/ops/gated.h"
#include "core/device/ops/loss.h"
#include "core/device/ops/norm.h"
#include "core/device/ops/optimizer.h"
#include "core/device/ops/pool.h"
#include "core/device/ops/product.h"
#include "core/device/ops/random.h"
#include "core/device/ops/rotary.h"
#include "core/device/ops/rows.h"
#include "core/device/ops/split_loss.h"
#include "core/device/ops/unfused_attention.h"

namespace twofold::ops {

// Every operation. F(Operation) is repeated for each.
// clang-format off
#define TWOFOLD_OPERATIONS(F) \
  F(MatMul) F(ConvolutionForward) F(ConvolutionBackward) F(ConvolutionWeights) F(MaxPoolForward) F(MaxPoolBackward) \
  F(AveragePoolForward) F(AveragePoolBackward) F(BatchNormStatistics) F(BatchNormFinish) F(BatchNormForward) \
  F(BatchNormSums) F(BatchNormBackward) F(Fill) F(Cast) F(Affine) F(Add) F(AddRelu) F(AddTo) F(Scale) \
  F(ActivationForward) F(ActivationBackward) F(Dropout) F(MaskedDropoutForward) F(MaskedDropoutBackward) \
  F(SwiGluForward) F(SwiGluBackward) F(ColumnSum) F(AddBias) F(EmbeddingForward) F(EmbeddingBackward) \
  F(PositionForward) F(PositionBackward) F(CopyColumns) F(LayerNormForward) F(LayerNormBackward) F(LayerNormWeights) \
  F(RmsNormForward) F(RmsNormBackward) F(RmsNormWeights) F(AttentionForward) F(AttentionBackward) \
  F(AttentionBlockForward) F(AttentionBlockBackward) F(RotaryTable) F(Rotary) F(BatchedMatMul) F(SoftmaxForward) \
  F(SoftmaxBackward) F(RouteForward) F(RouteBackward) F(Dispatch) F(Combine) F(CombineWeights) F(CrossEntropyForward) \
  F(CrossEntropyBackward) F(Sum) F(CountCorrect) F(SplitMax) F(SplitSums) F(SplitLosses) F(SplitBackward) \
  F(SplitCorrect) F(RandomFill) F(TopK) F(RandomPlaces) F(GatherElements) F(ScatterElements) F(Quantise) F(Dequantise) \
  F(QuantiseFp8) F(SignPack) F(SignUnpack) F(Orthogonalise) F(SgdStep) F(AdamStep) F(SquaredNorm) F(ClipFactor)
// clang-format on

#define TWOFOLD_COMMA_AND(Operation) , Operation
template <class First, class... Others>
using VariantOfOthers = std::variant<Others...>;
using AnyOp = VariantOfOthers<void TWOFOLD_OPERATIONS(TWOFOLD_COMMA_AND)>;
#undef TWOFOLD_COMMA_AND

// The rules of each operation. A file of ops/ defines them; one that is missing is an error of the linker. Rules that
// only some operations have are declared there too.
namespace rules {
#define TWOFOLD_RULES(Operation)   \
  KernelKey Key(const Operation&); \
  Cost CostOf(const Operation&);   \
  void CheckShapes(const Operation&);
TWOFOLD_OPERATIONS(TWOFOLD_RULES)
#undef TWOFOLD_RULES
}  // namespace rules

// Any operation, as a value. Its copy and move operations and its destructor are defined out of line, in one place,
// because they account for most of the compile time of files that launch operations.
class Op {
 public:
  template <class Operation>
  requires std::is_constructible_v<AnyOp, std::in_place_type_t<Operation>, Operation> Op(Operation operation)
      : any_(std::in_place_type<Operation>, std::move(operation)) {}
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(Op other) noexcept;
  ~Op();
  const AnyOp& any() const { return any_; }

 private:
  AnyOp any_;
};

enum class DeviceKind { kCpu, kCuda };

KernelKey Key(const Op& op);
Cost CostOf(const Op& op);
void CheckShapes(const Op& op);                               // prints the shapes and aborts on a mismatch
Bytes Workspace(const Op& op, DeviceKind kind, int threads);  // the kernel's scratch memory, determined by shape

}  // namespace twofold::ops
