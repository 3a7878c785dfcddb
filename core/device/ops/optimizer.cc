#include "core/device/ops/optimizer.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// A BF16 or F16 parameter may have a master or, without one, rounding keys.
bool Rounding(const Tensor& param, const Tensor& master, const RoundingKeys& rounding_keys) {
  const bool narrow = param.dtype() == DType::kBF16 || param.dtype() == DType::kF16;
  if (master.empty()) return narrow || rounding_keys == nullptr;
  return narrow && rounding_keys == nullptr && master.numel() == param.numel() && master.dtype() == DType::kF32;
}

bool Factor(const Tensor& factor) {
  return factor.empty() || (factor.numel() == 1 && OneOf(factor, DType::kF32, DType::kF64));
}

void CheckRanges(const ElementRanges& ranges, int64_t numel) {
  if (ranges == nullptr) return;
  int64_t last = 0;
  for (const ElementRange& r : *ranges) {
    TWOFOLD_CHECK(r.begin >= last && r.end > r.begin && r.end <= numel,
                  StrCat("[", r.begin, ", ", r.end, ") after ", last, ", of ", numel, " elements"));
    last = r.end;
  }
}

void CheckRoundingKeys(const RoundingKeys& rounding_keys, int64_t numel) {
  if (rounding_keys == nullptr) return;
  int64_t last = -1;
  for (const RoundingKeyRange& r : *rounding_keys) {
    TWOFOLD_CHECK(last < 0 ? r.begin == 0 : r.begin > last,
                  StrCat("draws from ", r.begin, " on after ", last, ", of ", numel, " elements"));
    last = r.begin;
  }
  TWOFOLD_CHECK(last >= 0 && last < std::max<int64_t>(numel, 1),
                StrCat("draws from ", last, " on, of ", numel, " elements"));
}

// The table of ranges in the workspace. A small table is passed with the launch instead.
template <class Ranges>
Bytes Table(const Ranges& ranges) {
  if (ranges == nullptr || ranges->size() <= kRangesOfALaunch) return Bytes(0);
  return Bytes(RoundUp(static_cast<int64_t>(ranges->size() * sizeof(ranges->front())), 256));
}

// A draw costs as much as in RandomFill.
double RoundingFlops(const RoundingKeys& rounding_keys) { return rounding_keys == nullptr ? 0 : 20; }

}  // namespace

KernelKey Key(const SgdStep& o) { return Flat("sgd_step", o.param); }
Cost CostOf(const SgdStep& o) {
  const Bytes state = OrZero(o.momentum) + OrZero(o.master);
  return Streaming(4 + RoundingFlops(o.rounding_keys), o.param.numel(), o.param.bytes() + o.grad.bytes() + state,
                   o.param.bytes() + state);
}
void CheckShapes(const SgdStep& o) {
  const int64_t n = o.param.numel();
  Expect(o.grad.numel() == n && (o.momentum.empty() || Wide(o.momentum, o.param, n)) &&
             Rounding(o.param, o.master, o.rounding_keys) && Factor(o.factor),
         "sgd_step", {&o.param, &o.grad, &o.momentum, &o.master, &o.factor});
  CheckRanges(o.undecayed, n);
  CheckRoundingKeys(o.rounding_keys, n);
}
Bytes CudaWorkspace(const SgdStep& o) { return Table(o.undecayed) + Table(o.rounding_keys); }

KernelKey Key(const AdamStep& o) { return Flat("adam_step", o.param); }
Cost CostOf(const AdamStep& o) {
  const Bytes state = o.m.bytes() + o.v.bytes() + OrZero(o.master);
  return Streaming(14 + RoundingFlops(o.rounding_keys), o.param.numel(), o.param.bytes() + o.grad.bytes() + state,
                   o.param.bytes() + state);
}
void CheckShapes(const AdamStep& o) {
  const int64_t n = o.param.numel();
  Expect(o.grad.numel() == n && Wide(o.m, o.param, n) && Wide(o.v, o.param, n) &&
             Rounding(o.param, o.master, o.rounding_keys) && Factor(o.factor),
         "adam_step", {&o.param, &o.grad, &o.m, &o.v, &o.master, &o.factor});
  CheckRanges(o.undecayed, n);
  CheckRoundingKeys(o.rounding_keys, n);
}
Bytes CudaWorkspace(const AdamStep& o) { return Table(o.undecayed) + Table(o.rounding_keys); }

KernelKey Key(const SquaredNorm& o) { return Flat("squared_norm", o.in); }
Cost CostOf(const SquaredNorm& o) { return Streaming(2, o.in.numel(), o.in.bytes(), o.out.bytes()); }
void CheckShapes(const SquaredNorm& o) { Expect(o.out.numel() == 1, "squared_norm", {&o.in, &o.out}); }
Bytes CudaWorkspace(const SquaredNorm& o) { return Bytes(8 * ((o.in.numel() + kNormPart - 1) / kNormPart)); }

KernelKey Key(const ClipFactor& o) { return Flat("clip_factor", o.out); }
Cost CostOf(const ClipFactor& o) { return Streaming(3, 1, o.squared_norm.bytes(), o.out.bytes()); }
void CheckShapes(const ClipFactor& o) {
  Expect(o.squared_norm.numel() == 1 && o.out.numel() == 1, "clip_factor", {&o.squared_norm, &o.out});
}

}  // namespace twofold::ops::rules
