#include "core/device/ops/experts.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

bool AreChoices(const Choices& c) {
  return c.experts.dtype() == DType::kI32 && c.places.dtype() == DType::kI32 && c.experts.shape().rank() == 2 &&
         c.experts.shape() == c.places.shape();
}

// Checks a router's tensors: probabilities [T, E], and the weights and choices.
bool IsRouting(const Choices& c, const Tensor& probabilities, const Tensor& weights, const Tensor& logits) {
  const int64_t tokens = Rows(logits), experts = logits.dim(-1);
  return AreChoices(c) && c.experts.dim(0) == tokens && c.experts.dim(1) >= 1 && c.experts.dim(1) <= experts &&
         experts <= kMostExperts && Wide(probabilities, logits, logits.numel()) &&
         Wide(weights, logits, c.experts.numel());
}

bool AreCounts(const Tensor& counts, const Tensor& logits) {
  return counts.empty() || (counts.dtype() == DType::kI32 && counts.shape() == Shape{logits.dim(-1)});
}

// Checks rows of tokens and slots or rows of experts, which have the same type.
bool IsExchange(const Choices& c, const Tensor& rows, const Tensor& slots) {
  return AreChoices(c) && (slots.shape().rank() == 3 || slots.shape().rank() == 2) && slots.dim(-1) == rows.dim(-1) &&
         Rows(rows) == c.experts.dim(0) && rows.dtype() == slots.dtype();
}

// Bytes of the rows that the choices move.
Bytes ChosenRows(const Choices& c, const Tensor& slots) {
  return Bytes(std::min(c.experts.numel(), Rows(slots)) * slots.dim(-1) * ElementSize(slots.dtype()));
}
Bytes BytesOf(const Choices& c) { return c.experts.bytes() + c.places.bytes(); }
KernelKey ByChoices(std::string_view name, const Choices& c, const Tensor& slots) {
  return {name, slots.dtype(), {c.experts.numel(), slots.dim(-1), 0}};
}
// The number of choices of each expert, for each block of choices.
Bytes BlocksOfEach(const Choices& c, int64_t experts) {
  return Bytes((c.experts.numel() + kChoicesCounted - 1) / kChoicesCounted * experts * ElementSize(DType::kI32));
}
Bytes OneOfEach(int64_t experts) { return Bytes(RoundUp(experts, 16) * ElementSize(DType::kI32)); }

}  // namespace

KernelKey Key(const RouteForward& o) { return ByRows("route_forward", o.logits); }
Cost CostOf(const RouteForward& o) {
  return Streaming(12 + 2 * static_cast<double>(o.choices.experts.dim(1)), o.logits.numel(), o.logits.bytes(),
                   o.probabilities.bytes() + o.weights.bytes() + BytesOf(o.choices) + OrZero(o.counts));
}
void CheckShapes(const RouteForward& o) {
  Expect(IsRouting(o.choices, o.probabilities, o.weights, o.logits) && AreCounts(o.counts, o.logits), "route_forward",
         {&o.logits, &o.probabilities, &o.weights, &o.choices.experts, &o.choices.places, &o.counts});
}
Bytes CpuWorkspace(const RouteForward& o) { return OneOfEach(o.logits.dim(-1)); }  // number of choices per expert
Bytes CudaWorkspace(const RouteForward& o) { return BlocksOfEach(o.choices, o.logits.dim(-1)); }

KernelKey Key(const RouteBackward& o) { return ByRows("route_backward", o.dlogits); }
Cost CostOf(const RouteBackward& o) {
  return Streaming(o.balance != 0 ? 8 : 4, o.dlogits.numel(),
                   o.probabilities.bytes() + o.dweights.bytes() + o.choices.experts.bytes(), o.dlogits.bytes());
}
void CheckShapes(const RouteBackward& o) {
  Expect(IsRouting(o.choices, o.probabilities, o.dweights, o.dlogits), "route_backward",
         {&o.probabilities, &o.dweights, &o.choices.experts, &o.choices.places, &o.dlogits});
}
Bytes CpuWorkspace(const RouteBackward& o) { return OneOfEach(o.dlogits.dim(-1)); }
Bytes CudaWorkspace(const RouteBackward& o) {
  return o.balance != 0 ? BlocksOfEach(o.choices, o.dlogits.dim(-1)) : Bytes(0);
}

KernelKey Key(const Dispatch& o) { return ByChoices("dispatch", o.choices, o.slots); }
Cost CostOf(const Dispatch& o) {
  return Streaming(o.weights.empty() ? 0 : 1, o.slots.numel(),
                   ChosenRows(o.choices, o.slots) + BytesOf(o.choices) + OrZero(o.weights), o.slots.bytes());
}
void CheckShapes(const Dispatch& o) {
  Expect(IsExchange(o.choices, o.x, o.slots) && (o.weights.empty() || Wide(o.weights, o.x, o.choices.experts.numel())),
         "dispatch", {&o.x, &o.choices.experts, &o.choices.places, &o.weights, &o.slots});
}

// The choice that each slot holds
Bytes CudaWorkspace(const Dispatch& o) { return Bytes(Rows(o.slots) * ElementSize(DType::kI32)); }

KernelKey Key(const Combine& o) { return ByChoices("combine", o.choices, o.slots); }
Cost CostOf(const Combine& o) {
  return Streaming(2 * static_cast<double>(o.choices.experts.dim(1)), o.y.numel(),
                   ChosenRows(o.choices, o.slots) + BytesOf(o.choices) + OrZero(o.weights), o.y.bytes());
}
void CheckShapes(const Combine& o) {
  Expect(IsExchange(o.choices, o.y, o.slots) && (o.weights.empty() || Wide(o.weights, o.y, o.choices.experts.numel())),
         "combine", {&o.slots, &o.choices.experts, &o.choices.places, &o.weights, &o.y});
}

KernelKey Key(const CombineWeights& o) { return ByChoices("combine_weights", o.choices, o.slots); }
Cost CostOf(const CombineWeights& o) {
  return Streaming(2 * static_cast<double>(o.choices.experts.dim(1)), o.dy.numel(),
                   ChosenRows(o.choices, o.slots) + BytesOf(o.choices) + o.dy.bytes(), o.dweights.bytes());
}
void CheckShapes(const CombineWeights& o) {
  Expect(IsExchange(o.choices, o.dy, o.slots) && Wide(o.dweights, o.dy, o.choices.experts.numel()), "combine_weights",
         {&o.slots, &o.choices.experts, &o.choices.places, &o.dy, &o.dweights});
}

}  // namespace twofold::ops::rules
