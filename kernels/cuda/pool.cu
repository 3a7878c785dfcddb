// Pooling with channels last. A thread has 16 bytes of neighbouring channels. Gradients are gathered, so no two threads
// add to the same one.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

// Images [height, width] and their pooled images.
struct Windows {
  int height, width, out_height, out_width, size, stride, padding;
  int64_t channels;
  bool packs;  // 16-byte loads are allowed
};
Windows WindowsOf(const Tensor& x, const Tensor& y, int64_t size, int64_t stride, int64_t padding, bool packs) {
  return {static_cast<int>(x.dim(1)),
          static_cast<int>(x.dim(2)),
          static_cast<int>(y.dim(1)),
          static_cast<int>(y.dim(2)),
          static_cast<int>(size),
          static_cast<int>(stride),
          static_cast<int>(padding),
          x.dim(3),
          packs};
}

// One block per row of an image: calls f(column, first channel, count) for the channels of its pixels, in pieces of
// kPack.
template <int kPack, class F>
__device__ inline void ForPieces(int width, int64_t channels, F&& f) {
  const auto pieces = static_cast<int>((channels + kPack - 1) / kPack);
  for (int64_t i = threadIdx.x; i < int64_t{width} * pieces; i += blockDim.x) {
    const int64_t channel = i % pieces * kPack;
    f(static_cast<int>(i / pieces), channel, channels - channel);
  }
}

template <class T>
__global__ void __launch_bounds__(256) TakeLargest(const T* x, T* y, uint8_t* chosen, Windows w) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int64_t row = blockIdx.x, image = row / w.out_height;
  const int top = static_cast<int>(row % w.out_height) * w.stride - w.padding;
  ForPieces<kPack>(w.out_width, w.channels, [&](int column, int64_t channel, int64_t count) {
    const bool whole = w.packs && count >= kPack;
    const int left = column * w.stride - w.padding;
    A best[kPack] = {}, v[kPack];
    int which[kPack] = {};
    bool fresh = true;
    for (int a = max(0, -top); a < min(w.size, w.height - top); ++a) {
      for (int b = max(0, -left); b < min(w.size, w.width - left); ++b) {
        LoadSome(x + ((image * w.height + top + a) * w.width + left + b) * w.channels + channel, whole, count, v);
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          const bool larger = fresh || v[i] > best[i] || (v[i] != v[i] && best[i] == best[i]);
          best[i] = larger ? v[i] : best[i];
          which[i] = larger ? a * w.size + b : which[i];
        }
        fresh = false;
      }
    }
    const int64_t at = (row * w.out_width + column) * w.channels + channel;
    StoreSome(y + at, whole, count, best);
    StoreSome(chosen + at, whole, count, which);
  });
}

// The windows [first, last] of one dimension that contain a pixel.
struct Covering {
  __device__ Covering(int at, int size, int stride, int padding, int windows)
      : first(at + padding < size ? 0 : (at + padding - size) / stride + 1),
        last(min((at + padding) / stride, windows - 1)) {}
  int first, last;
};

template <class T>
__global__ void __launch_bounds__(256) GatherChosen(const T* dy, const uint8_t* chosen, T* dx, Windows w) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int64_t row = blockIdx.x, image = row / w.height;
  const int r = static_cast<int>(row % w.height);
  const Covering rows(r, w.size, w.stride, w.padding, w.out_height);
  ForPieces<kPack>(w.width, w.channels, [&](int column, int64_t channel, int64_t count) {
    const bool whole = w.packs && count >= kPack;
    const Covering columns(column, w.size, w.stride, w.padding, w.out_width);
    A sum[kPack] = {}, d[kPack];
    for (int i = rows.first; i <= rows.last; ++i) {
      for (int j = columns.first; j <= columns.last; ++j) {
        const int own = (r + w.padding - i * w.stride) * w.size + column + w.padding - j * w.stride;
        const int64_t at = ((image * w.out_height + i) * w.out_width + j) * w.channels + channel;
        LoadSome(dy + at, whole, count, d);
        int which[kPack];
        LoadSome(chosen + at, whole, count, which);
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum[k] += which[k] == own ? d[k] : A(0);
      }
    }
    StoreSome(dx + (row * w.width + column) * w.channels + channel, whole, count, sum);
  });
}

// One block per image and 32 pieces of its channels; each of the block's eight rows of threads takes every eighth
// pixel.
constexpr int kSides = 8;
template <class T>
__global__ void __launch_bounds__(256) AveragePixels(const T* x, T* y, int64_t pixels, int64_t channels, bool packs) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>, kTile = kWarp * kPack;
  __shared__ A shared[kSides][kTile];
  const int lane = static_cast<int>(threadIdx.x), side = static_cast<int>(threadIdx.y);
  const int64_t first = int64_t{blockIdx.y} * kTile, channel = first + lane * kPack, count = channels - channel;
  const T* const image = x + blockIdx.x * pixels * channels;
  A sum[kPack] = {}, v[kPack];
  if (count > 0) {
    const bool whole = packs && count >= kPack;
#pragma unroll 4
    for (int64_t p = side; p < pixels; p += kSides) {
      LoadSome(image + p * channels + channel, whole, count, v);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[i] += v[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) shared[side][i * kWarp + lane] = sum[i];
  __syncthreads();
  const A part = A(1) / static_cast<A>(pixels);
  for (int at = side * kWarp + lane; at < kTile; at += kSides * kWarp) {
    if (first + at >= channels) continue;
    A total = 0;
#pragma unroll
    for (int s = 0; s < kSides; ++s) total += shared[s][at % kPack * kWarp + at / kPack];
    Store(y + blockIdx.x * channels + first + at, total * part);
  }
}

template <class T>
__global__ void __launch_bounds__(256) SpreadMean(const T* dy, T* dx, int64_t pixels, int64_t channels, bool packs) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int64_t pieces = (channels + kPack - 1) / kPack, image = blockIdx.x;
  const A part = A(1) / static_cast<A>(pixels);
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < pixels * pieces;
       i += int64_t{gridDim.y} * blockDim.x) {
    const int64_t pixel = i / pieces, channel = i % pieces * kPack, count = channels - channel;
    const bool whole = packs && count >= kPack;
    A d[kPack];
    LoadSome(dy + image * channels + channel, whole, count, d);
#pragma unroll
    for (int k = 0; k < kPack; ++k) d[k] *= part;
    StoreSome(dx + (image * pixels + pixel) * channels + channel, whole, count, d);
  }
}

// As many threads as a row of `width` pixels has pieces, rounded up to whole warps.
template <class T>
dim3 ThreadsFor(int64_t width, int64_t channels) {
  const int64_t pieces = width * CeilDiv(channels, kPerLoad<T>);
  return dim3(static_cast<unsigned>(std::clamp<int64_t>(CeilDiv(pieces, kWarp) * kWarp, kWarp, 256)));
}

}  // namespace

void Compute(const ops::MaxPoolForward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const bool packs = PacksFit(kPerLoad<T>, o.x.dim(3), {&o.x, &o.y, &o.chosen});
    if (o.y.numel() == 0) return;
    Launch(TakeLargest<T>, dim3(static_cast<unsigned>(o.y.dim(0) * o.y.dim(1))), ThreadsFor<T>(o.y.dim(2), o.y.dim(3)),
           0, c.stream, At<T>(o.x), At<T>(o.y), At<uint8_t>(o.chosen),
           WindowsOf(o.x, o.y, o.size, o.stride, o.padding, packs));
  });
}

void Compute(const ops::MaxPoolBackward& o, const Context& c) {
  ForFloat(o.dx.dtype(), [&]<class T>() {
    const bool packs = PacksFit(kPerLoad<T>, o.dx.dim(3), {&o.dx, &o.dy, &o.chosen});
    if (o.dx.numel() == 0) return;
    Launch(GatherChosen<T>, dim3(static_cast<unsigned>(o.dx.dim(0) * o.dx.dim(1))),
           ThreadsFor<T>(o.dx.dim(2), o.dx.dim(3)), 0, c.stream, At<T>(o.dy), At<uint8_t>(o.chosen), At<T>(o.dx),
           WindowsOf(o.dx, o.dy, o.size, o.stride, o.padding, packs));
  });
}

void Compute(const ops::AveragePoolForward& o, const Context& c) {
  const int64_t images = o.x.dim(0), channels = Columns(o.x), pixels = Rows(o.x) / images;
  ForFloat(o.x.dtype(), [&]<class T>() {
    const dim3 blocks(static_cast<unsigned>(images), static_cast<unsigned>(CeilDiv(channels, kWarp * kPerLoad<T>)));
    Launch(AveragePixels<T>, blocks, dim3(kWarp, kSides), 0, c.stream, At<T>(o.x), At<T>(o.y), pixels, channels,
           PacksFit(kPerLoad<T>, channels, {&o.x}));
  });
}

void Compute(const ops::AveragePoolBackward& o, const Context& c) {
  const int64_t images = o.dx.dim(0), channels = Columns(o.dx), pixels = Rows(o.dx) / images;
  ForFloat(o.dx.dtype(), [&]<class T>() {
    const int64_t pieces = pixels * CeilDiv(channels, kPerLoad<T>);
    const dim3 blocks(static_cast<unsigned>(images),
                      static_cast<unsigned>(std::clamp<int64_t>(CeilDiv(pieces, 1024), 1, 1024)));
    Launch(SpreadMean<T>, blocks, dim3(256), 0, c.stream, At<T>(o.dy), At<T>(o.dx), pixels, channels,
           PacksFit(kPerLoad<T>, channels, {&o.dy, &o.dx}));
  });
}

}  // namespace twofold::cuda
