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

using AnyOp =
    std::variant<MatMul, ConvolutionForward, ConvolutionBackward, ConvolutionWeights, MaxPoolForward, MaxPoolBackward,
                 AveragePoolForward, AveragePoolBackward, BatchNormStatistics, BatchNormFinish, BatchNormForward,
                 BatchNormSums, BatchNormBackward, Fill, Cast, Affine, Add, AddRelu, AddTo, Scale, ActivationForward,
                 ActivationBackward, Dropout, MaskedDropoutForward, MaskedDropoutBackward, SwiGluForward,
                 SwiGluBackward, ColumnSum, AddBias, EmbeddingForward, EmbeddingBackward, PositionForward,
                 PositionBackward, CopyColumns, LayerNormForward, LayerNormBackward, LayerNormWeights, RmsNormForward,
                 RmsNormBackward, RmsNormWeights, AttentionForward, AttentionBackward, AttentionBlockForward,
                 AttentionBlockBackward, RotaryTable, Rotary, BatchedMatMul, SoftmaxForward, SoftmaxBackward,
                 RouteForward, RouteBackward, Dispatch, Combine, CombineWeights, CrossEntropyForward,
                 CrossEntropyBackward, Sum, CountCorrect, SplitMax, SplitSums, SplitLosses, SplitBackward, SplitCorrect,
                 RandomFill, TopK, RandomPlaces, GatherElements, ScatterElements, Quantise, Dequantise, SignPack,
                 SignUnpack, SgdStep, AdamStep, SquaredNorm, ClipFactor>;

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
