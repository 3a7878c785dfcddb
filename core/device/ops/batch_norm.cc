#include "core/device/ops/batch_norm.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

bool Channels(const Tensor& t, const Tensor& x) { return Wide(t, x, x.dim(-1)); }
bool Pairs(const Tensor& t, const Tensor& x) { return Wide(t, x, 2 * x.dim(-1)); }
Bytes Slabs(const Tensor& x) {
  return Bytes(2 * kBatchNormSlabs * RoundUp(x.dim(-1), 16) * ElementSize(AccumulationType(x.dtype())));
}

Bytes CudaSlabs(const Tensor& x) {
  const CudaSweep s(x);
  return Bytes(2 * s.slabs * s.channels * ElementSize(AccumulationType(x.dtype())));
}

}  // namespace

CudaSweep::CudaSweep(const Tensor& x) : channels(x.dim(-1)), rows(Rows(x)), piece(16 / ElementSize(x.dtype())) {
  constexpr int64_t kThreads = 256, kBlocks = 1024, kRowsEach = 8;
  const int64_t pieces = std::max<int64_t>((channels + piece - 1) / piece, 1);
  tile = std::min(pieces, kThreads);
  at_once = kThreads / tile;
  tiles = (pieces + tile - 1) / tile;
  slabs = std::clamp<int64_t>(rows / (at_once * kRowsEach), 1, (kBlocks + tiles - 1) / tiles);
}

KernelKey Key(const BatchNormStatistics& o) { return ByRows("batch_norm_statistics", o.x); }
Cost CostOf(const BatchNormStatistics& o) { return Streaming(4, o.x.numel(), o.x.bytes(), o.statistics.bytes()); }
void CheckShapes(const BatchNormStatistics& o) {
  Expect(Pairs(o.statistics, o.x) && Rows(o.x) >= 1, "batch_norm_statistics", {&o.x, &o.statistics});
}
Bytes CpuWorkspace(const BatchNormStatistics& o) { return Slabs(o.x); }
Bytes CudaWorkspace(const BatchNormStatistics& o) { return CudaSlabs(o.x); }

KernelKey Key(const BatchNormFinish& o) { return Flat("batch_norm_finish", o.mean); }
Cost CostOf(const BatchNormFinish& o) {
  const Bytes running = o.running_mean.bytes() + o.running_variance.bytes();
  return Streaming(10, o.mean.numel(), OrZero(o.parts) + running,
                   o.mean.bytes() + o.rstd.bytes() + (o.parts.empty() ? Bytes(0) : running));
}
void CheckShapes(const BatchNormFinish& o) {
  const int64_t c = o.mean.numel();
  Expect(
      (o.parts.empty() ||
       (o.parts.dtype() == o.mean.dtype() && o.parts.numel() > 0 && o.parts.numel() % (2 * c) == 0 && o.rows >= 1)) &&
          AccumulationType(o.mean.dtype()) == o.mean.dtype() && Like(o.mean, o.rstd) && o.running_mean.numel() == c &&
          OneOf(o.running_mean, o.mean.dtype(), DType::kF64) && Like(o.running_mean, o.running_variance),
      "batch_norm_finish", {&o.parts, &o.running_mean, &o.running_variance, &o.mean, &o.rstd});
}

KernelKey Key(const BatchNormForward& o) {
  return ByRows(o.relu ? "batch_norm_relu_forward" : "batch_norm_forward", o.x);
}
Cost CostOf(const BatchNormForward& o) { return Streaming(4, o.x.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const BatchNormForward& o) {
  const int64_t c = o.x.dim(-1);
  Expect(
      Like(o.x, o.y) && o.gamma.numel() == c && o.beta.numel() == c && Channels(o.mean, o.x) && Channels(o.rstd, o.x),
      "batch_norm_forward", {&o.x, &o.gamma, &o.beta, &o.mean, &o.rstd, &o.y});
}

KernelKey Key(const BatchNormSums& o) { return ByRows(o.y.empty() ? "batch_norm_sums" : "batch_norm_relu_sums", o.x); }
Cost CostOf(const BatchNormSums& o) {
  return Streaming(5, o.x.numel(), o.dy.bytes() + o.x.bytes() + OrZero(o.y), o.sums.bytes());
}
void CheckShapes(const BatchNormSums& o) {
  Expect(Rows(o.x) >= 1 && Like(o.x, o.dy) && (o.y.empty() || Like(o.x, o.y)) && Channels(o.mean, o.x) &&
             Channels(o.rstd, o.x) && Pairs(o.sums, o.x),
         "batch_norm_sums", {&o.dy, &o.x, &o.y, &o.mean, &o.rstd, &o.sums});
}
Bytes CpuWorkspace(const BatchNormSums& o) { return Slabs(o.x); }
Bytes CudaWorkspace(const BatchNormSums& o) { return CudaSlabs(o.x); }

KernelKey Key(const BatchNormBackward& o) {
  return ByRows(o.y.empty() ? "batch_norm_backward" : "batch_norm_relu_backward", o.x);
}
Cost CostOf(const BatchNormBackward& o) {
  return Streaming(7, o.x.numel(), o.dy.bytes() + o.x.bytes() + OrZero(o.y), o.dx.bytes());
}
void CheckShapes(const BatchNormBackward& o) {
  Expect(Like(o.x, o.dy) && Like(o.x, o.dx) && (o.y.empty() || Like(o.x, o.y)) && o.gamma.numel() == o.x.dim(-1) &&
             Channels(o.mean, o.x) && Channels(o.rstd, o.x) && Pairs(o.sums, o.x) && o.rows >= 1,
         "batch_norm_backward", {&o.dy, &o.x, &o.y, &o.gamma, &o.mean, &o.rstd, &o.sums, &o.dx});
}

}  // namespace twofold::ops::rules
