// Pooling with channels last: the channels of a pixel are compared or summed side by side.
#include <algorithm>

#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

// The part [begin, end) of a window that lies inside the image; `start` is where the window begins.
struct Inside {
  Inside(int64_t output, int64_t stride, int64_t padding, int64_t window, int64_t size)
      : start(output * stride - padding), begin(std::max<int64_t>(0, -start)), end(std::min(window, size - start)) {}
  int64_t start, begin, end;
};

// Channels [first, first + count) of one output pixel.
template <class A>
void LargestOf(const ops::MaxPoolForward& o, int64_t image, const Inside& rows, const Inside& columns, int64_t pixel,
               int64_t first, int64_t count) {
  const int64_t channels = o.x.dim(3), at = pixel * channels + first;
  const Source<A> x_of(o.x);
  const Sink<A> y_of(o.y);
  uint8_t* chosen = o.chosen.data<uint8_t>() + at;
  A buffer[kChunk], best[kChunk], result[kChunk];
  bool fresh = true;
  for (int64_t a = rows.begin; a < rows.end; ++a) {
    for (int64_t b = columns.begin; b < columns.end; ++b, fresh = false) {
      const auto which = static_cast<uint8_t>(a * o.size + b);
      const int64_t from = ((image * o.x.dim(1) + rows.start + a) * o.x.dim(2) + columns.start + b) * channels + first;
      const A* x = x_of.At(from, count, buffer);
      if (fresh) {
        std::copy_n(x, count, best);
        std::fill_n(chosen, count, which);
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        const bool larger = x[i] > best[i] || (x[i] != x[i] && best[i] == best[i]);
        best[i] = larger ? x[i] : best[i];
        chosen[i] = larger ? which : chosen[i];
      }
    }
  }
  A* y = y_of.At(at, result);
  std::copy_n(best, count, y);
  y_of.Put(at, count, y);
}

// Images are independent of each other, and windows of one image may overlap.
template <class A>
void SpreadImage(const ops::MaxPoolBackward& o, int64_t image, A* dx) {
  const int64_t channels = o.dx.dim(3), height = o.dy.dim(1), width = o.dy.dim(2);
  const Source<A> dy_of(o.dy);
  A buffer[kChunk];
  std::fill_n(dx, o.dx.dim(1) * o.dx.dim(2) * channels, A(0));
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t pixel = (image * height + r) * width + c;
      InChunks(0, channels, [&](int64_t first, int64_t count) {
        const A* dy = dy_of.At(pixel * channels + first, count, buffer);
        const uint8_t* chosen = o.chosen.data<uint8_t>() + pixel * channels + first;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = r * o.stride - o.padding + chosen[i] / o.size;
          const int64_t column = c * o.stride - o.padding + chosen[i] % o.size;
          dx[(row * o.dx.dim(2) + column) * channels + first + i] += dy[i];
        }
      });
    }
  }
}

template <class A>
void Spread(const ops::MaxPoolBackward& o, Context& c) {
  const bool own = o.dx.dtype() == DTypeOf<A>::value;
  A* dx = own ? o.dx.data<A>() : c.scratch.Take<A>(o.dx.numel());
  const int64_t images = o.dx.dim(0), elements = images == 0 ? 0 : o.dx.numel() / images;
  c.pool.ParallelForEach(images, RowGrain(elements), [&](int64_t i) { SpreadImage(o, i, dx + i * elements); });
  if (own) return;
  ForChunks(c.pool, o.dx.numel(), [&](int64_t first, int64_t count) {
    Convert(dx + first, DTypeOf<A>::value, AddressOf(o.dx, first), o.dx.dtype(), count);
  });
}

}  // namespace

void Compute(const ops::MaxPoolForward& o, Context& c) {
  const int64_t height = o.y.dim(1), width = o.y.dim(2), channels = o.y.dim(3);
  VisitWide(o.x.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(o.y.dim(0) * height, RowGrain(width * channels), [&](int64_t row) {
      const Inside rows(row % height, o.stride, o.padding, o.size, o.x.dim(1));
      for (int64_t column = 0; column < width; ++column) {
        const Inside columns(column, o.stride, o.padding, o.size, o.x.dim(2));
        InChunks(0, channels, [&](int64_t first, int64_t count) {
          LargestOf<A>(o, row / height, rows, columns, row * width + column, first, count);
        });
      }
    });
  });
}

void Compute(const ops::MaxPoolBackward& o, Context& c) {
  VisitWide(o.dx.dtype(), [&]<class A>() { Spread<A>(o, c); });
}

void Compute(const ops::AveragePoolForward& o, Context& c) {
  const int64_t images = o.x.dim(0), channels = Columns(o.x), pixels = Rows(o.x) / images;
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x);
    const A part = A(1) / static_cast<A>(pixels);
    c.pool.ParallelForEach(images, RowGrain(pixels * channels), [&](int64_t image) {
      InChunks(0, channels, [&](int64_t first, int64_t count) {
        A sum[kChunk], buffer[kChunk];
        std::fill_n(sum, count, A(0));
        for (int64_t p = 0; p < pixels; ++p) {
          MapChunk(count, sum, sum, x_of.At((image * pixels + p) * channels + first, count, buffer),
                   [](A s, A x) { return s + x; });
        }
        MapChunk(count, sum, sum, [part](A s) { return s * part; });
        Sink<A>(o.y).Put(image * channels + first, count, sum);
      });
    });
  });
}

void Compute(const ops::AveragePoolBackward& o, Context& c) {
  const int64_t images = o.dx.dim(0), channels = Columns(o.dx), pixels = Rows(o.dx) / images;
  VisitWide(o.dx.dtype(), [&]<class A>() {
    const Source<A> dy_of(o.dy);
    const Sink<A> dx_of(o.dx);
    const A part = A(1) / static_cast<A>(pixels);
    c.pool.ParallelForEach(images, RowGrain(pixels * channels), [&](int64_t image) {
      InChunks(0, channels, [&](int64_t first, int64_t count) {
        A buffer[kChunk], share[kChunk];
        MapChunk(count, share, dy_of.At(image * channels + first, count, buffer), [part](A d) { return d * part; });
        for (int64_t p = 0; p < pixels; ++p) dx_of.Put((image * pixels + p) * channels + first, count, share);
      });
    });
  });
}

}  // namespace twofold::cpu
