// Batch normalisation (Ioffe and Szegedy 2015) with channels last.
//
// Rows of few channels are short, so several are processed as one wide row, with every channel's values repeated along
// it. Sums over rows are computed in a fixed number of slabs, which are then combined in order.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

using ops::rules::kBatchNormSlabs;

// Some channels of a tensor, in wide rows: piece i has `length(i)` elements from at(i) on, and element j of a piece
// belongs to channel first + j % count.
struct Sweep {
  Sweep(const Tensor& x, int64_t first)
      : first(first),
        count(std::min(kChunk, Columns(x) - first)),
        elements(x.numel()),
        columns(Columns(x)),
        together(columns <= kChunk ? PowerOfTwo(std::min(kChunk / columns, Rows(x))) : 1) {}
  // The largest power of two that is at most n.
  static int64_t PowerOfTwo(int64_t n) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  }
  int64_t first, count, elements, columns, together /* rows in one piece */;
  int64_t pieces() const { return (elements / columns + together - 1) / together; }
  int64_t at(int64_t piece) const { return piece * together * columns + first; }
  int64_t width() const { return together * count; }
  int64_t length(int64_t piece) const {
    return together == 1 ? count : std::min(width(), elements - piece * together * columns);
  }
};

template <class F>
void ForSweeps(const Tensor& x, F&& f) {
  for (int64_t first = 0; first < Columns(x); first += kChunk) f(Sweep(x, first));
}

// One value per channel, repeated along a piece.
template <class A>
struct Repeated {
  Repeated(const Sweep& s, const Tensor& t) {
    const Source<A> source(t);
    const A* from = source.At(s.first, s.count, values);
    if (from != values) std::copy_n(from, s.count, values);
    for (int64_t i = s.count; i < s.width(); ++i) values[i] = values[i - s.count];
  }
  A values[kChunk];
};

// ---- Sums over rows ----
struct Slab {
  int64_t begin, end;
};  // rows

int64_t Slabs(const Tensor& x) {
  return std::clamp<int64_t>(x.numel() / (16 * kChunk), 1, std::min(kBatchNormSlabs, Rows(x)));
}
Slab SlabAt(const Tensor& x, int64_t i) {
  const int64_t slabs = Slabs(x);
  return {Rows(x) * i / slabs, Rows(x) * (i + 1) / slabs};
}

// f(row, rows, width) for the rows of a slab: first wide rows of `width` rows each, then the rest as single rows.
template <class F>
void ForParts(const Sweep& s, const Slab& slab, F&& f) {
  const int64_t whole = (slab.end - slab.begin) / s.together, rest = slab.begin + whole * s.together;
  if (whole > 0) f(slab.begin, whole, s.together);
  if (s.together > 1 && rest < slab.end) f(rest, slab.end - rest, int64_t{1});
}

constexpr int64_t kBlock = 16;  // wide rows that stay in the inner cache together

// Combines the mean and sum of squared deviations of `n` values with those of `more` other values (Chan, Golub and
// LeVeque 1979).
template <class A>
void Merge(int64_t width, int64_t n, A* mean, A* squares, int64_t more, const A* other_mean, const A* other_squares) {
  const A share = static_cast<A>(static_cast<double>(more) / static_cast<double>(n + more));
  const A weight = share * static_cast<A>(n);
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    const A delta = other_mean[i] - mean[i];
    mean[i] += delta * share;
    squares[i] += other_squares[i] + delta * delta * weight;
  }
}

// Mean and sum of squared deviations of each lane of `rows` wide rows from element `at` on.
template <class A>
void MomentsOf(const Source<A>& x, int64_t at, int64_t stride, int64_t rows, int64_t width, A* mean, A* squares) {
  A block_mean[kChunk], block_squares[kChunk], buffer[kChunk];
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = std::min(rows, begin + kBlock);
    std::fill_n(block_mean, width, A(0));
    std::fill_n(block_squares, width, A(0));
    for (int64_t r = begin; r < end; ++r) {
      MapChunk(width, block_mean, block_mean, x.At(at + r * stride, width, buffer), [](A s, A v) { return s + v; });
    }
    const A part = A(1) / static_cast<A>(end - begin);
    MapChunk(width, block_mean, block_mean, [part](A s) { return s * part; });
    for (int64_t r = begin; r < end; ++r) {
      MapChunk(width, block_squares, block_squares, x.At(at + r * stride, width, buffer), block_mean,
               [](A s, A v, A m) { return s + (v - m) * (v - m); });
    }
    if (begin == 0) {
      std::copy_n(block_mean, width, mean);
      std::copy_n(block_squares, width, squares);
    } else {
      Merge(width, begin, mean, squares, end - begin, block_mean, block_squares);
    }
  }
}

// The same for one slab, written to mean[first ..] and squares[first ..].
template <class A>
void SlabMoments(const Tensor& x, const Sweep& s, const Slab& slab, A* mean, A* squares) {
  const Source<A> source(x);
  A lane_mean[kChunk], lane_squares[kChunk];
  int64_t done = 0;
  ForParts(s, slab, [&](int64_t row, int64_t rows, int64_t together) {
    MomentsOf(source, row * s.columns + s.first, together * s.columns, rows, together * s.count, lane_mean,
              lane_squares);
    for (int64_t half = together / 2; half > 0; half /= 2, rows *= 2) {
      const int64_t width = half * s.count;
      Merge(width, rows, lane_mean, lane_squares, rows, lane_mean + width, lane_squares + width);
    }
    if (done > 0) {
      Merge(s.count, done, mean + s.first, squares + s.first, rows, lane_mean, lane_squares);
    } else {
      std::copy_n(lane_mean, s.count, mean + s.first);
      std::copy_n(lane_squares, s.count, squares + s.first);
    }
    done += rows;
  });
}

// Sums of g and of g * xhat over one slab. `relu`: elements whose y is not above zero have no gradient.
template <class A>
void SlabSums(const ops::BatchNormSums& o, const Sweep& s, const Slab& slab, A* g_sum, A* gx_sum) {
  const bool relu = !o.y.empty();
  const Source<A> x_of(o.x), dy_of(o.dy), y_of(relu ? o.y : o.dy);
  const Repeated<A> mean(s, o.mean), rstd(s, o.rstd);
  std::fill_n(g_sum + s.first, s.count, A(0));
  std::fill_n(gx_sum + s.first, s.count, A(0));
  A buffers[3][kChunk], g_lane[kChunk], gx_lane[kChunk];
  ForParts(s, slab, [&](int64_t row, int64_t rows, int64_t together) {
    const int64_t width = together * s.count, stride = together * s.columns, start = row * s.columns + s.first;
    for (int64_t begin = 0; begin < rows; begin += 4 * kBlock) {
      std::fill_n(g_lane, width, A(0));
      std::fill_n(gx_lane, width, A(0));
      for (int64_t r = begin; r < std::min(rows, begin + 4 * kBlock); ++r) {
        const int64_t at = start + r * stride;
        const A* dy = dy_of.At(at, width, buffers[0]);
        const A* x = x_of.At(at, width, buffers[1]);
        const A *m = mean.values, *k = rstd.values;
        if (relu) {
          const A* y = y_of.At(at, width, buffers[2]);
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) {
            const A g = y[i] > 0 ? dy[i] : A(0);
            g_lane[i] += g;
            gx_lane[i] += g * ((x[i] - m[i]) * k[i]);
          }
        } else {
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) {
            g_lane[i] += dy[i];
            gx_lane[i] += dy[i] * ((x[i] - m[i]) * k[i]);
          }
        }
      }
      const auto add = [](A a, A b) { return a + b; };
      for (int64_t half = together / 2; half > 0; half /= 2) {
        MapChunk(half * s.count, g_lane, g_lane, g_lane + half * s.count, add);
        MapChunk(half * s.count, gx_lane, gx_lane, gx_lane + half * s.count, add);
      }
      MapChunk(s.count, g_sum + s.first, g_sum + s.first, g_lane, add);
      MapChunk(s.count, gx_sum + s.first, gx_sum + s.first, gx_lane, add);
    }
  });
}

// Two values per channel and slab, [slabs, 2, padded channels].
template <class A>
struct SlabFigures {
  SlabFigures(const Tensor& x, Scratch& scratch)
      : padded((Columns(x) + 15) / 16 * 16), data(scratch.Take<A>(2 * kBatchNormSlabs * padded)) {}
  A* first(int64_t slab) const { return data + 2 * slab * padded; }
  A* second(int64_t slab) const { return first(slab) + padded; }
  int64_t padded;
  A* data;
};

template <class A>
void Statistics(const ops::BatchNormStatistics& o, Context& c) {
  const int64_t channels = Columns(o.x), slabs = Slabs(o.x);
  const SlabFigures<A> parts(o.x, c.scratch);
  c.pool.ParallelForEach(slabs, 1, [&](int64_t i) {
    ForSweeps(o.x, [&](const Sweep& s) { SlabMoments(o.x, s, SlabAt(o.x, i), parts.first(i), parts.second(i)); });
  });
  A *mean = o.statistics.data<A>(), *squares = mean + channels;
  std::copy_n(parts.first(0), channels, mean);
  std::copy_n(parts.second(0), channels, squares);
  for (int64_t i = 1; i < slabs; ++i) {
    const Slab slab = SlabAt(o.x, i);
    Merge(channels, slab.begin, mean, squares, slab.end - slab.begin, parts.first(i), parts.second(i));
  }
}

template <class A>
void Sums(const ops::BatchNormSums& o, Context& c) {
  const int64_t channels = Columns(o.x), slabs = Slabs(o.x);
  const SlabFigures<A> parts(o.x, c.scratch);
  c.pool.ParallelForEach(slabs, 1, [&](int64_t i) {
    ForSweeps(o.x, [&](const Sweep& s) { SlabSums(o, s, SlabAt(o.x, i), parts.first(i), parts.second(i)); });
  });
  A* sums = o.sums.data<A>();
  std::fill_n(sums, 2 * channels, A(0));
  for (int64_t i = 0; i < slabs; ++i) {
    for (int64_t ch = 0; ch < channels; ++ch) {
      sums[ch] += parts.first(i)[ch];
      sums[channels + ch] += parts.second(i)[ch];
    }
  }
}

// ---- From statistics to the values that normalise ----
template <class A, class R>
void FinishChannel(const ops::BatchNormFinish& o, int64_t ch) {
  R &running_mean = o.running_mean.data<R>()[ch], &running_variance = o.running_variance.data<R>()[ch];
  double mean = static_cast<double>(running_mean), variance = static_cast<double>(running_variance);
  if (!o.parts.empty()) {
    const int64_t channels = o.mean.numel(), parts = o.parts.numel() / (2 * channels);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < parts; ++i) sum += static_cast<double>(o.parts.data<A>()[2 * i * channels + ch]);
    mean = sum / static_cast<double>(parts);
    for (int64_t i = 0; i < parts; ++i) {
      const double away = static_cast<double>(o.parts.data<A>()[2 * i * channels + ch]) - mean;
      squares += static_cast<double>(o.parts.data<A>()[(2 * i + 1) * channels + ch]) +
                 static_cast<double>(o.rows) * away * away;
    }
    const auto rows = static_cast<double>(o.rows * parts);
    variance = squares / rows;
    const double unbiased = squares / std::max(rows - 1, 1.0);
    running_mean = static_cast<R>((1 - o.momentum) * static_cast<double>(running_mean) + o.momentum * mean);
    running_variance = static_cast<R>((1 - o.momentum) * static_cast<double>(running_variance) + o.momentum * unbiased);
  }
  o.mean.data<A>()[ch] = static_cast<A>(mean);
  o.rstd.data<A>()[ch] = static_cast<A>(1 / std::sqrt(variance + o.eps));
}

// ---- Element by element ----
template <class A>
void Normalise(const ops::BatchNormForward& o, const Sweep& s, ThreadPool& pool) {
  const Repeated<A> mean(s, o.mean), gamma(s, o.gamma), beta(s, o.beta);
  Repeated<A> scale(s, o.rstd);
  MapChunk(s.width(), scale.values, gamma.values, scale.values, [](A g, A r) { return g * r; });
  const Source<A> x_of(o.x);
  const Sink<A> y_of(o.y);
  pool.ParallelFor(s.pieces(), 16, [&](int64_t begin, int64_t end) {
    A buffer[kChunk], result[kChunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = s.at(i), n = s.length(i);
      const A* x = x_of.At(at, n, buffer);
      A* y = y_of.At(at, result);
      if (o.relu) {
        MapChunk(n, y, x, mean.values, scale.values, beta.values, [](A v, A m, A k, A b) {
          const A t = (v - m) * k + b;
          return t > 0 ? t : A(0);
        });
      } else {
        MapChunk(n, y, x, mean.values, scale.values, beta.values, [](A v, A m, A k, A b) { return (v - m) * k + b; });
      }
      y_of.Put(at, n, y);
    }
  });
}

// dx = scale * (g - g_mean - (x - mean) * slope): scale = gamma * rstd and slope = rstd^2 * mean of g * (x - mean).
template <class A>
void NormaliseBackward(const ops::BatchNormBackward& o, const Sweep& s, ThreadPool& pool) {
  const int64_t channels = Columns(o.x);
  const bool relu = !o.y.empty();
  const Repeated<A> mean(s, o.mean), rstd(s, o.rstd);
  Repeated<A> scale(s, o.gamma), g_mean(s, o.sums.Slice(0, channels)), slope(s, o.sums.Slice(channels, channels));
  const A part = A(1) / static_cast<A>(o.rows);
  const auto times = [](A a, A b) { return a * b; };
  MapChunk(s.width(), scale.values, scale.values, rstd.values, times);
  MapChunk(s.width(), slope.values, slope.values, rstd.values, [part](A v, A r) { return v * part * r; });
  MapChunk(s.width(), g_mean.values, g_mean.values, [part](A v) { return v * part; });
  const Source<A> x_of(o.x), dy_of(o.dy), y_of(relu ? o.y : o.dy);
  const Sink<A> dx_of(o.dx);
  pool.ParallelFor(s.pieces(), 16, [&](int64_t begin, int64_t end) {
    A buffers[3][kChunk], result[kChunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = s.at(i), n = s.length(i);
      const A* x = x_of.At(at, n, buffers[0]);
      const A* dy = dy_of.At(at, n, buffers[1]);
      A* dx = dx_of.At(at, result);
      if (relu) {
        MapChunk(n, dx, x, dy, y_of.At(at, n, buffers[2]), mean.values, scale.values, g_mean.values, slope.values,
                 [](A v, A d, A y, A m, A k, A g, A b) { return k * ((y > 0 ? d : A(0)) - g - (v - m) * b); });
      } else {
        MapChunk(n, dx, x, dy, mean.values, scale.values, g_mean.values, slope.values,
                 [](A v, A d, A m, A k, A g, A b) { return k * (d - g - (v - m) * b); });
      }
      dx_of.Put(at, n, dx);
    }
  });
}

}  // namespace

void Compute(const ops::BatchNormStatistics& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() { Statistics<A>(o, c); });
}

void Compute(const ops::BatchNormFinish& o, Context&) {
  VisitWide(o.mean.dtype(), [&]<class A>() {
    VisitWide(o.running_mean.dtype(), [&]<class R>() {
      for (int64_t ch = 0; ch < o.mean.numel(); ++ch) FinishChannel<A, R>(o, ch);
    });
  });
}

void Compute(const ops::BatchNormForward& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() { ForSweeps(o.x, [&](const Sweep& s) { Normalise<A>(o, s, c.pool); }); });
}

void Compute(const ops::BatchNormSums& o, Context& c) {
  VisitWide(o.x.dtype(), [&]<class A>() { Sums<A>(o, c); });
}

void Compute(const ops::BatchNormBackward& o, Context& c) {
  VisitWide(o.x.dtype(),
            [&]<class A>() { ForSweeps(o.x, [&](const Sweep& s) { NormaliseBackward<A>(o, s, c.pool); }); });
}

}  // namespace twofold::cpu
