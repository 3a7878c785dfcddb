#include "core/device/ops/elementwise.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {

KernelKey Key(const Fill& o) { return Flat("fill", o.out); }
Cost CostOf(const Fill& o) { return Streaming(0, o.out.numel(), Bytes(0), o.out.bytes()); }
void CheckShapes(const Fill&) {}

KernelKey Key(const Cast& o) { return Flat("cast", o.in); }
Cost CostOf(const Cast& o) { return Streaming(0, o.in.numel(), o.in.bytes(), o.out.bytes()); }
void CheckShapes(const Cast& o) { Expect(o.in.numel() == o.out.numel(), "cast", {&o.in, &o.out}); }

KernelKey Key(const Affine& o) { return {"affine", o.out.dtype(), {1, o.in.numel(), 0}}; }
Cost CostOf(const Affine& o) { return Streaming(2, o.in.numel(), o.in.bytes(), o.out.bytes()); }
void CheckShapes(const Affine& o) {
  Expect(o.in.numel() == o.out.numel() && IsFloat(o.out.dtype()), "affine", {&o.in, &o.out});
}

KernelKey Key(const Add& o) { return Flat("add", o.out); }
Cost CostOf(const Add& o) { return Streaming(1, o.out.numel(), o.a.bytes() + o.b.bytes(), o.out.bytes()); }
void CheckShapes(const Add& o) { Expect(Like(o.a, o.b) && Like(o.a, o.out), "add", {&o.a, &o.b, &o.out}); }

KernelKey Key(const AddRelu& o) { return Flat("add_relu", o.out); }
Cost CostOf(const AddRelu& o) { return Streaming(2, o.out.numel(), o.a.bytes() + o.b.bytes(), o.out.bytes()); }
void CheckShapes(const AddRelu& o) { Expect(Like(o.a, o.b) && Like(o.a, o.out), "add_relu", {&o.a, &o.b, &o.out}); }

KernelKey Key(const AddTo& o) { return Flat("add_to", o.in); }
Cost CostOf(const AddTo& o) { return Streaming(1, o.in.numel(), o.in.bytes() + o.out.bytes(), o.out.bytes()); }
void CheckShapes(const AddTo& o) { Expect(o.in.numel() == o.out.numel(), "add_to", {&o.in, &o.out}); }

KernelKey Key(const Scale& o) { return Flat("scale", o.x); }
Cost CostOf(const Scale& o) { return Streaming(1, o.x.numel(), o.x.bytes(), o.x.bytes()); }
void CheckShapes(const Scale& o) { Expect(o.by.empty() || o.by.numel() == 1, "scale", {&o.x, &o.by}); }

namespace {

struct ActivationFigures {
  std::string_view forward, backward;            // names of the kernels
  double forward_flops = 1, backward_flops = 1;  // per element
};
constexpr ActivationFigures FiguresOf(ActivationForward::Kind kind) {
  switch (kind) {
    case ActivationForward::kRelu: return {"relu_forward", "relu_backward", 1, 1};
    case ActivationForward::kGelu: return {"gelu_forward", "gelu_backward", 12, 20};
    case ActivationForward::kSquaredRelu: return {"squared_relu_forward", "squared_relu_backward", 2, 3};
  }
  __builtin_unreachable();
}

}  // namespace

KernelKey Key(const ActivationForward& o) { return Flat(FiguresOf(o.kind).forward, o.x); }
Cost CostOf(const ActivationForward& o) {
  return Streaming(FiguresOf(o.kind).forward_flops, o.x.numel(), o.x.bytes(), o.y.bytes());
}
void CheckShapes(const ActivationForward& o) { Expect(Like(o.x, o.y), "activation_forward", {&o.x, &o.y}); }

KernelKey Key(const ActivationBackward& o) { return Flat(FiguresOf(o.kind).backward, o.x); }
Cost CostOf(const ActivationBackward& o) {
  return Streaming(FiguresOf(o.kind).backward_flops, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes());
}
void CheckShapes(const ActivationBackward& o) {
  Expect(Like(o.x, o.dy) && Like(o.x, o.dx), "activation_backward", {&o.x, &o.dy, &o.dx});
}

KernelKey Key(const Dropout& o) { return Flat("dropout", o.x); }
Cost CostOf(const Dropout& o) { return Streaming(40, o.x.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const Dropout& o) { Expect(Like(o.x, o.y), "dropout", {&o.x, &o.y}); }

KernelKey Key(const MaskedDropoutForward& o) { return Flat("masked_dropout_forward", o.x); }
Cost CostOf(const MaskedDropoutForward& o) {
  return Streaming(40, o.x.numel(), o.x.bytes(), o.y.bytes() + o.mask.bytes());
}
void CheckShapes(const MaskedDropoutForward& o) {
  Expect(Like(o.x, o.y) && o.mask.numel() == o.x.numel() && o.mask.dtype() == DType::kU8, "masked_dropout_forward",
         {&o.x, &o.y, &o.mask});
}

KernelKey Key(const MaskedDropoutBackward& o) { return Flat("masked_dropout_backward", o.dy); }
Cost CostOf(const MaskedDropoutBackward& o) {
  return Streaming(1, o.dy.numel(), o.dy.bytes() + o.mask.bytes(), o.dx.bytes());
}
void CheckShapes(const MaskedDropoutBackward& o) {
  Expect(Like(o.dy, o.dx) && o.mask.numel() == o.dy.numel() && o.mask.dtype() == DType::kU8, "masked_dropout_backward",
         {&o.dy, &o.mask, &o.dx});
}

}  // namespace twofold::ops::rules
