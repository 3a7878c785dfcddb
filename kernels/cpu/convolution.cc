// Convolutions without an im2col matrix: tiles of neighbouring pixels and panels of output channels stay in registers
// while the code streams over the kernel's rows, each of which is contiguous in memory (Georganas et al. 2018, "Anatomy
// of High-Performance Deep Learning Convolutions on SIMD Architectures", section II, with channels last).
//
// Images that need margins of zeros, or are BF16 or F16, are copied a few at a time; the copies and the packed weights
// are the workspace. The order of every result's sum depends only on the shape.
#include <algorithm>

#include "kernels/cpu/convolution_tiles.h"
#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

using ops::rules::Margin;
using ops::rules::Phase;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t n, int64_t to) { return CeilDivide(n, to) * to; }
template <class A>
int64_t Panels(int64_t channels) {
  return CeilDivide(channels, kVector<A>);
}

// ---- Images ----
// Images as A, with their margins: the tensor's own memory, or copies of a few images at a time.
template <class A>
class Images {
 public:
  Images(const Tensor& t, Margin rows, Margin columns, int64_t channels, Scratch& scratch)
      : t_(t),
        rows_(rows),
        columns_(columns),
        height(t.dim(1) + rows.before + rows.after),
        width(t.dim(2) + columns.before + columns.after),
        channels(channels) {
    const bool own = t.dtype() == DTypeOf<A>::value && rows.none() && columns.none() && channels == t.dim(3);
    at_once = own ? t.dim(0) : ops::rules::ImagesAtOnce(t.dim(0), image(), DTypeOf<A>::value);
    if (!own) copy_ = scratch.Take<A>(at_once * image());
  }
  int64_t image() const { return height * width * channels; }
  int64_t row() const { return width * channels; }

  // Images [first, first + count), count <= at_once; valid until the next call.
  const A* Load(int64_t first, int64_t count, ThreadPool& pool) const {
    if (copy_ == nullptr) return t_.data<A>() + first * image();
    const int64_t rows = count * height;
    pool.ParallelForEach(rows, RowGrain(row()),
                         [&](int64_t r) { CopyRow(first + r / height, r % height - rows_.before, copy_ + r * row()); });
    return copy_;
  }

 private:
  const Tensor& t_;
  Margin rows_, columns_;

 public:
  const int64_t height, width, channels;  // with margins
  int64_t at_once;

 private:
  void CopyRow(int64_t image, int64_t r, A* to) const {
    if (r < 0 || r >= t_.dim(1)) {
      std::fill_n(to, row(), A(0));
      return;
    }
    const int64_t columns = t_.dim(2), c = t_.dim(3), first = ((image * t_.dim(1)) + r) * columns * c;
    std::fill_n(to, columns_.before * channels, A(0));
    to += columns_.before * channels;
    if (c == channels) {
      Convert(AddressOf(t_, first), t_.dtype(), to, DTypeOf<A>::value, columns * c);
    } else {
      for (int64_t i = 0; i < columns; ++i) {
        Convert(AddressOf(t_, first + i * c), t_.dtype(), to + i * channels, DTypeOf<A>::value, c);
        std::fill(to + i * channels + c, to + (i + 1) * channels, A(0));
      }
    }
    std::fill_n(to + columns * channels, columns_.after * channels, A(0));
  }
  A* copy_ = nullptr;
};

// ---- Weights ----
// One panel of forward weights: [kernel rows, kernel columns * input channels, kVector], zeros past the last channel.
template <class A>
void PackForward(const Tensor& w, int64_t panel, A* to) {
  const int64_t co = w.dim(3), elements = w.numel() / co, first = panel * kVector<A>;
  const int64_t held = std::min(kVector<A>, co - first);
  const Source<A> source(w);
  A buffer[kVector<A>];
  for (int64_t e = 0; e < elements; ++e, to += kVector<A>) {
    std::copy_n(source.At(e * co + first, held, buffer), held, to);
    std::fill(to + held, to + kVector<A>, A(0));
  }
}

// One panel of input channels of one phase's taps, reversed: [taps, taps * output channels, kVector].
template <class A>
void PackBackward(const Tensor& w, const Phase& rows, const Phase& columns, int64_t stride, int64_t panel, A* to) {
  const int64_t kw = w.dim(1), ci = w.dim(2), co = w.dim(3), first = panel * kVector<A>;
  const int64_t held = std::min(kVector<A>, ci - first);
  const Source<A> source(w);
  A buffer[kChunk];
  for (int64_t a = rows.taps - 1; a >= 0; --a) {
    for (int64_t b = columns.taps - 1; b >= 0; --b, to += co * kVector<A>) {
      const int64_t tap = (rows.kernel + a * stride) * kw + columns.kernel + b * stride;
      for (int64_t c = 0; c < kVector<A>; ++c) {
        if (c >= held) {
          for (int64_t o = 0; o < co; ++o) to[o * kVector<A> + c] = A(0);
          continue;
        }
        InChunks(0, co, [&](int64_t at, int64_t count) {
          const A* from = source.At((tap * ci + first + c) * co + at, count, buffer);
          for (int64_t o = 0; o < count; ++o) to[(at + o) * kVector<A> + c] = from[o];
        });
      }
    }
  }
}

// ---- Correlation: the common form of forward and of each phase of backward ----
// Writes pixels (row + r * step, column + c * step) for r < rows and c < columns of images [first, first + count) of
// `out`. Pixel (0, 0) of x is the first one that result (0, 0) reads.
template <class A>
struct Correlation {
  const A* x;
  int64_t x_image, x_row, x_pixel;  // elements between images; between rows, and pixels, of neighbouring results
  int64_t kernel_row, kernel_rows, run;
  const A* w;      // panels
  const A* start;  // null, or as many elements as the panels have
  const Tensor& out;
  int64_t row, column, step, rows, columns;
};

// Wide rows take two panels at a time; narrow rows four, so that there are enough sums to hide the latency.
int64_t PanelsAtOnce(int64_t left, int64_t columns) {
  if (left >= 4 && columns <= MostElements(4)) return 4;
  return left >= 2 ? 2 : 1;
}

// Results [column, column + count) of a row, in `panels` panels from `panel` on.
template <class A>
void WriteTile(const Correlation<A>& c, PixelTile<A> tile, int64_t pixel, int64_t count, int64_t panel,
               int64_t panels) {
  const int64_t channels = c.out.dim(3), first = panel * kVector<A>;
  const int64_t held = std::min(panels * kVector<A>, channels - first);
  if (c.out.dtype() == DTypeOf<A>::value && held == panels * kVector<A>) {
    tile.out = c.out.template data<A>() + pixel * channels + first;
    tile.out_pixel = c.step * channels;
    return Compute(tile, count, panels);
  }
  A buffer[16 * kVector<A> * 2];  // MostElements(panels) * panels is at most 24
  tile.out = buffer;
  tile.out_pixel = panels * kVector<A>;
  Compute(tile, count, panels);
  for (int64_t p = 0; p < count; ++p) {
    Convert(buffer + p * tile.out_pixel, DTypeOf<A>::value, AddressOf(c.out, (pixel + p * c.step) * channels + first),
            c.out.dtype(), held);
  }
}

// One row of results, in `panels` panels from `panel` on.
template <class A>
void WriteRow(const Correlation<A>& c, int64_t first_image, int64_t image, int64_t r, int64_t panel, int64_t panels) {
  const int64_t elements = c.kernel_rows * c.run;
  PixelTile<A> tile{.x_pixel = c.x_pixel,
                    .x_row = c.kernel_row,
                    .rows = c.kernel_rows,
                    .run = c.run,
                    .w = c.w + panel * elements * kVector<A>,
                    .w_panel = elements * kVector<A>,
                    .start = c.start == nullptr ? nullptr : c.start + panel * kVector<A>};
  const A* x = c.x + image * c.x_image + r * c.x_row;
  const int64_t row = ((first_image + image) * c.out.dim(1) + c.row + r * c.step) * c.out.dim(2) + c.column;
  const int64_t tiles = CeilDivide(c.columns, MostElements(panels));
  for (int64_t i = 0; i < tiles; ++i) {  // of nearly equal width
    const int64_t begin = c.columns * i / tiles, end = c.columns * (i + 1) / tiles;
    tile.x = x + begin * c.x_pixel;
    WriteTile(c, tile, row + begin * c.step, end - begin, panel, panels);
  }
}

// Panels are the outer loop, so that a panel stays in the inner caches while it is used.
template <class A>
void Correlate(const Correlation<A>& c, int64_t first_image, int64_t images, ThreadPool& pool) {
  const int64_t panels = Panels<A>(c.out.dim(3)), rows = images * c.rows;
  const int64_t work = std::max<int64_t>(c.columns * c.kernel_rows * c.run, 1);
  for (int64_t panel = 0; panel < panels;) {
    const int64_t at_once = PanelsAtOnce(panels - panel, c.columns);
    pool.ParallelForEach(rows, CeilDivide(16 * kChunk, work * at_once),
                         [&](int64_t r) { WriteRow(c, first_image, r / c.rows, r % c.rows, panel, at_once); });
    panel += at_once;
  }
}

template <class A>
void Forward(const ops::ConvolutionForward& o, Context& c) {
  const int64_t kh = o.w.dim(0), kw = o.w.dim(1), ci = o.w.dim(2), co = o.w.dim(3);
  const int64_t panels = Panels<A>(co), panel = kh * kw * ci * kVector<A>;
  A* w = c.scratch.Take<A>(panels * panel);
  A* bias = c.scratch.Take<A>(panels * kVector<A>);
  const Images<A> x(o.x, {o.padding, o.padding}, {o.padding, o.padding}, ci, c.scratch);
  c.pool.ParallelForEach(panels, CeilDivide(16 * kChunk, panel),
                         [&](int64_t p) { PackForward(o.w, p, w + p * panel); });
  std::fill_n(bias, panels * kVector<A>, A(0));
  if (!o.bias.empty()) Convert(o.bias.raw(), o.bias.dtype(), bias, DTypeOf<A>::value, co);
  for (int64_t first = 0; first < o.x.dim(0); first += x.at_once) {
    const int64_t count = std::min(x.at_once, o.x.dim(0) - first);
    Correlate(Correlation<A>{.x = x.Load(first, count, c.pool),
                             .x_image = x.image(),
                             .x_row = o.stride * x.row(),
                             .x_pixel = o.stride * ci,
                             .kernel_row = x.row(),
                             .kernel_rows = kh,
                             .run = kw * ci,
                             .w = w,
                             .start = o.bias.empty() ? nullptr : bias,
                             .out = o.y,
                             .row = 0,
                             .column = 0,
                             .step = 1,
                             .rows = o.y.dim(1),
                             .columns = o.y.dim(2)},
              first, count, c.pool);
  }
}

// ---- The gradient of the input ----
// The phases of one dimension, and the margin around dy that they need.
struct Phases {
  Phases(int64_t size, int64_t output, int64_t kernel, int64_t stride, int64_t padding)
      : margin(ops::rules::BackwardMargin(size, output, kernel, stride, padding)) {
    for (int64_t first = 0; first < std::min(stride, size); ++first)
      list.push_back(ops::rules::PhaseOf(first, size, kernel, stride, padding));
  }
  std::vector<Phase> list;
  Margin margin;
};

// Pixels that no kernel position covers have no gradient.
void ClearPhase(const Tensor& dx, const Phase& rows, const Phase& columns, int64_t stride) {
  const int64_t channels = dx.dim(3);
  for (int64_t image = 0; image < dx.dim(0); ++image) {
    for (int64_t r = rows.first; r < dx.dim(1); r += stride) {
      for (int64_t c = columns.first; c < dx.dim(2); c += stride)
        SetZero(dx, ((image * dx.dim(1) + r) * dx.dim(2) + c) * channels, channels);
    }
  }
}

// One phase of images [first, first + count); `dy` is theirs, with margins.
template <class A>
void BackwardPhase(const ops::ConvolutionBackward& o, const Images<A>& images, const A* dy, const A* w,
                   const Phase& rows, const Phase& columns, Margin above, Margin left, int64_t first, int64_t count,
                   ThreadPool& pool) {
  const int64_t co = o.w.dim(3);
  const int64_t row = above.before + rows.shift - (rows.taps - 1),
                column = left.before + columns.shift - (columns.taps - 1);
  Correlate(Correlation<A>{.x = dy + row * images.row() + column * co,
                           .x_image = images.image(),
                           .x_row = images.row(),
                           .x_pixel = co,
                           .kernel_row = images.row(),
                           .kernel_rows = rows.taps,
                           .run = columns.taps * co,
                           .w = w,
                           .start = nullptr,
                           .out = o.dx,
                           .row = rows.first,
                           .column = columns.first,
                           .step = o.stride,
                           .rows = rows.count,
                           .columns = columns.count},
            first, count, pool);
}

template <class A>
void Backward(const ops::ConvolutionBackward& o, Context& c) {
  const int64_t co = o.w.dim(3), panels = Panels<A>(o.w.dim(2));
  const Phases rows(o.dx.dim(1), o.dy.dim(1), o.w.dim(0), o.stride, o.padding);
  const Phases columns(o.dx.dim(2), o.dy.dim(2), o.w.dim(1), o.stride, o.padding);
  A* const packed = c.scratch.Take<A>(o.w.dim(0) * o.w.dim(1) * co * panels * kVector<A>);
  const Images<A> dy(o.dy, rows.margin, columns.margin, co, c.scratch);
  A* next = packed;
  for (const Phase& r : rows.list) {
    for (const Phase& k : columns.list) {
      const int64_t panel = r.taps * k.taps * co * kVector<A>;
      if (panel == 0) {
        ClearPhase(o.dx, r, k, o.stride);
        continue;
      }
      c.pool.ParallelForEach(panels, CeilDivide(16 * kChunk, panel),
                             [&](int64_t p) { PackBackward(o.w, r, k, o.stride, p, next + p * panel); });
      next += panels * panel;
    }
  }
  for (int64_t first = 0; first < o.dy.dim(0); first += dy.at_once) {
    const int64_t count = std::min(dy.at_once, o.dy.dim(0) - first);
    const A* images = dy.Load(first, count, c.pool);
    const A* w = packed;
    for (const Phase& r : rows.list) {
      for (const Phase& k : columns.list) {
        const int64_t taps = r.taps * k.taps;
        if (taps == 0) continue;
        BackwardPhase(o, dy, images, w, r, k, rows.margin, columns.margin, first, count, c.pool);
        w += taps * co * panels * kVector<A>;
      }
    }
  }
}

// ---- The gradient of the weights ----
// About how many pixels a tile's sums stay in registers: enough to amortise loading and storing them, and few enough
// that rounding errors in f32 stay small.
constexpr int64_t kPixels = 256;

template <class A>
struct WeightSums {
  const Images<A>& x;
  const Images<A>& dy;
  const A* x_data;
  const A* dy_data;
  int64_t stride, rows, columns;  // of dy
  int64_t kernel_rows, run;
  A* sums;  // panels of [kernel rows, run, kVector]

  // Adds images [first, first + count) and rows [row, row + height) to elements [begin, end) of one kernel row.
  void Add(int64_t first, int64_t count, int64_t row, int64_t height, int64_t kernel_row, int64_t begin, int64_t end,
           int64_t panel, int64_t panels) const {
    const int64_t panel_size = kernel_rows * run * kVector<A>;
    Compute(WeightTile<A>{.x = x_data + first * x.image() + (row * stride + kernel_row) * x.row() + begin,
                          .x_image = x.image(),
                          .x_row = stride * x.row(),
                          .x_pixel = stride * x.channels,
                          .dy = dy_data + first * dy.image() + row * dy.row() + panel * kVector<A>,
                          .dy_image = dy.image(),
                          .dy_row = dy.row(),
                          .dy_pixel = dy.channels,
                          .images = count,
                          .rows = height,
                          .columns = columns,
                          .out = sums + panel * panel_size + (kernel_row * run + begin) * kVector<A>,
                          .out_panel = panel_size},
            end - begin, panels);
  }
};

// Divides the sums into tiles: pairs of panels, kernel rows, and pieces of a kernel row of nearly equal length.
template <class A>
void AddPixels(const WeightSums<A>& s, int64_t first, int64_t count, int64_t row, int64_t height, ThreadPool& pool) {
  const int64_t panels = s.dy.channels / kVector<A>, pairs = CeilDivide(panels, 2);
  const int64_t pieces = CeilDivide(s.run, MostElements(panels == 1 ? 1 : 2));
  const int64_t work = count * height * s.columns * MostElements(2);
  pool.ParallelForEach(pairs * s.kernel_rows * pieces, CeilDivide(16 * kChunk, std::max<int64_t>(work, 1)),
                       [&](int64_t i) {
                         const int64_t piece = i % pieces, kernel_row = i / pieces % s.kernel_rows;
                         const int64_t panel = i / pieces / s.kernel_rows * 2;
                         s.Add(first, count, row, height, kernel_row, s.run * piece / pieces,
                               s.run * (piece + 1) / pieces, panel, std::min<int64_t>(2, panels - panel));
                       });
}

// Unpacks panels to [kernel rows, run, output channels].
template <class A>
void StoreWeights(const ops::ConvolutionWeights& o, const A* sums, ThreadPool& pool) {
  const int64_t co = o.dw.dim(3), elements = o.dw.numel() / std::max<int64_t>(co, 1);
  pool.ParallelForEach(elements, RowGrain(co), [&](int64_t e) {
    for (int64_t first = 0; first < co; first += kVector<A>) {
      StoreOrAdd(o.dw, e * co + first, std::min(kVector<A>, co - first), sums + (first * elements + e * kVector<A>),
                 o.accumulate);
    }
  });
}

template <class A>
void Weights(const ops::ConvolutionWeights& o, Context& c) {
  const int64_t co = RoundUp(o.dw.dim(3), kVector<A>), elements = o.dw.dim(0) * o.dw.dim(1) * o.dw.dim(2);
  A* sums = c.scratch.Take<A>(elements * co);
  const Images<A> x(o.x, {o.padding, o.padding}, {o.padding, o.padding}, o.x.dim(3), c.scratch);
  const Images<A> dy(o.dy, {}, {}, co, c.scratch);
  std::fill_n(sums, elements * co, A(0));
  const int64_t rows = o.dy.dim(1), columns = o.dy.dim(2), at_once = std::min(x.at_once, dy.at_once);
  const int64_t images = std::max<int64_t>(1, kPixels / (rows * columns));
  const int64_t height = std::clamp<int64_t>(kPixels / columns, 1, rows);
  for (int64_t first = 0; first < o.x.dim(0); first += at_once) {
    const int64_t count = std::min(at_once, o.x.dim(0) - first);
    const WeightSums<A> s{x,
                          dy,
                          x.Load(first, count, c.pool),
                          dy.Load(first, count, c.pool),
                          o.stride,
                          rows,
                          columns,
                          o.dw.dim(0),
                          o.dw.dim(1) * o.dw.dim(2),
                          sums};
    for (int64_t i = 0; i < count; i += images) {
      for (int64_t row = 0; row < rows; row += height)
        AddPixels(s, i, std::min(images, count - i), row, std::min(height, rows - row), c.pool);
    }
  }
  StoreWeights(o, sums, c.pool);
}

}  // namespace

void Compute(const ops::ConvolutionForward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() { Forward<A>(o, c); });
}
void Compute(const ops::ConvolutionBackward& o, Context& c) {
  VisitWide(o.dy.dtype(), [&]<class A>() { Backward<A>(o, c); });
}
void Compute(const ops::ConvolutionWeights& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() { Weights<A>(o, c); });
}

}  // namespace twofold::cpu
