// Convolutions: by cuDNN if it is available and has the convolution; otherwise each as one product whose operands are
// never stored (implicit GEMM: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning",
// section 3). The product reads tiles of both operands into shared memory. Sums are in f32 (f64); their order depends
// on the shape alone.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kEach = 4;  // a thread has 4 x 4 results of a 64 x 64 tile

struct Images {
  int64_t images;
  int height, width, in, out_height, out_width, out, kernel_height, kernel_width, stride, padding;
  int64_t pixels() const { return images * height * width; }
  int64_t out_pixels() const { return images * out_height * out_width; }
  int64_t taps() const { return int64_t{kernel_height} * kernel_width; }
};
Images ImagesOf(const Tensor& x, const Tensor& w, const Tensor& y, int64_t stride, int64_t padding) {
  const auto narrow = [](int64_t n) { return static_cast<int>(n); };
  return {x.dim(0),         narrow(x.dim(1)), narrow(x.dim(2)), narrow(x.dim(3)), narrow(y.dim(1)), narrow(y.dim(2)),
          narrow(y.dim(3)), narrow(w.dim(0)), narrow(w.dim(1)), narrow(stride),   narrow(padding)};
}

// A pixel of an image, and a kernel position with a channel.
struct Pixel {
  int64_t image;
  int row, column;
};
struct Tap {
  int row, column, channel;
};
__device__ inline Pixel PixelOf(int64_t i, int height, int width) {
  const int64_t line = i / width;
  return {line / height, static_cast<int>(line % height), static_cast<int>(i % width)};
}
__device__ inline Tap TapOf(int64_t i, int kernel_width, int channels) {
  const auto place = static_cast<int>(i / channels);
  return {place / kernel_width, place % kernel_width, static_cast<int>(i % channels)};
}

// The value of x that output pixel p sees at kernel position t: 0 in the padding.
template <class T>
__device__ inline Wide<T> Seen(const T* x, const Images& s, const Pixel& p, const Tap& t) {
  const int r = p.row * s.stride - s.padding + t.row, c = p.column * s.stride - s.padding + t.column;
  if (r < 0 || r >= s.height || c < 0 || c >= s.width) return 0;
  return As<Wide<T>>(x[((p.image * s.height + r) * s.width + c) * s.in + t.channel]);
}

// The three products, out[m, n] = sum over k of left(m, k) * right(k, n). kLeftByRow: elements of left are contiguous
// along m; kRightByInner: those of right along k. Left and right receive indices that were decomposed once (Row,
// Inner).
template <class T>
struct ForwardProduct {
  static constexpr bool kLeftByRow = false, kRightByInner = false;
  using Row = Pixel;
  using Inner = Tap;
  const T *x, *w;
  Images s;
  __device__ Row RowAt(int64_t m) const { return PixelOf(m, s.out_height, s.out_width); }
  __device__ Inner InnerAt(int64_t k) const { return TapOf(k, s.kernel_width, s.in); }
  __device__ Wide<T> Left(const Row& p, const Inner& t) const { return Seen(x, s, p, t); }
  __device__ Wide<T> Right(int64_t k, const Inner&, int64_t n) const { return As<Wide<T>>(w[k * s.out + n]); }
};

// Rows are pixels of dx; the inner dimension is kernel positions with output channels. (With a stride, most positions
// have no output.)
template <class T>
struct BackwardProduct {
  static constexpr bool kLeftByRow = false, kRightByInner = true;
  using Row = Pixel;
  using Inner = Tap;
  const T *dy, *w;
  Images s;
  __device__ Row RowAt(int64_t m) const { return PixelOf(m, s.height, s.width); }
  __device__ Inner InnerAt(int64_t k) const { return TapOf(k, s.kernel_width, s.out); }
  __device__ Wide<T> Left(const Row& p, const Inner& t) const {
    const int r = p.row + s.padding - t.row, c = p.column + s.padding - t.column;
    if (r < 0 || c < 0 || r % s.stride != 0 || c % s.stride != 0) return 0;
    const int y_row = r / s.stride, y_column = c / s.stride;
    if (y_row >= s.out_height || y_column >= s.out_width) return 0;
    return As<Wide<T>>(dy[((p.image * s.out_height + y_row) * s.out_width + y_column) * s.out + t.channel]);
  }
  __device__ Wide<T> Right(int64_t, const Inner& t, int64_t n) const {
    return As<Wide<T>>(w[((int64_t{t.row} * s.kernel_width + t.column) * s.in + n) * s.out + t.channel]);
  }
};

// Rows are kernel positions with input channels; the inner dimension is pixels of the output.
template <class T>
struct WeightsProduct {
  static constexpr bool kLeftByRow = true, kRightByInner = false;
  using Row = Tap;
  using Inner = Pixel;
  const T *x, *dy;
  Images s;
  __device__ Row RowAt(int64_t m) const { return TapOf(m, s.kernel_width, s.in); }
  __device__ Inner InnerAt(int64_t k) const { return PixelOf(k, s.out_height, s.out_width); }
  __device__ Wide<T> Left(const Row& t, const Inner& p) const { return Seen(x, s, p, t); }
  __device__ Wide<T> Right(int64_t k, const Inner&, int64_t n) const { return As<Wide<T>>(dy[k * s.out + n]); }
};

// Computes a tile of results for part blockIdx.z of the inner dimension; the parts are contiguous in `out`.
template <class Product, class A, class Out, class Bias>
__global__ void __launch_bounds__(kThreads)
    MultiplyImplicitly(Product p, int64_t m, int64_t n, int64_t k, const Bias* bias, Out* out) {
  __shared__ A left[kDepth][kTile + 4], right[kDepth][kTile + 4];
  constexpr int kLoads = kTile * kDepth / kThreads;  // elements of each operand that a thread reads
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t m_first = int64_t{blockIdx.x} * kTile, n_first = int64_t{blockIdx.y} * kTile;
  const int64_t k_begin = blockIdx.z * k / gridDim.z, k_end = (blockIdx.z + 1) * k / gridDim.z;
  // Element i of this thread is (outer, inner): neighbouring threads access neighbouring addresses in both cases.
  const auto outer_of = [&](bool by_outer, int i) {
    return by_outer ? thread % kTile : thread / kDepth + i * (kThreads / kDepth);
  };
  const auto inner_of = [&](bool by_outer, int i) {
    return by_outer ? thread / kTile + i * (kThreads / kTile) : thread % kDepth;
  };
  typename Product::Row rows[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t row = m_first + outer_of(Product::kLeftByRow, i);
    rows[i] = p.RowAt(row < m ? row : 0);
  }
  A sum[kEach][kEach] = {};
  for (int64_t k_first = k_begin; k_first < k_end; k_first += kDepth) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int outer = outer_of(Product::kLeftByRow, i), inner = inner_of(Product::kLeftByRow, i);
      const bool inside = m_first + outer < m && k_first + inner < k_end;
      left[inner][outer] = inside ? p.Left(rows[i], p.InnerAt(k_first + inner)) : A(0);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int outer = outer_of(!Product::kRightByInner, i), inner = inner_of(!Product::kRightByInner, i);
      const bool inside = n_first + outer < n && k_first + inner < k_end;
      right[inner][outer] = inside ? p.Right(k_first + inner, p.InnerAt(k_first + inner), n_first + outer) : A(0);
    }
    __syncthreads();
    const int row = thread / (kTile / kEach) * kEach, column = thread % (kTile / kEach) * kEach;
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      A a[kEach], b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) a[i] = left[d][row + i], b[i] = right[d][column + i];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }
  out += blockIdx.z * m * n;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int64_t row = m_first + thread / (kTile / kEach) * kEach + i;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t column = n_first + thread % (kTile / kEach) * kEach + j;
      if (row < m && column < n)
        Store(out + row * n + column, sum[i][j] + (bias == nullptr ? A(0) : As<A>(bias[column])));
    }
  }
}

template <class Product, class Out, class Bias>
void Multiply(const Product& p, int64_t m, int64_t n, int64_t k, int64_t parts, const Bias* bias, Out* out,
              const Context& c) {
  const dim3 blocks(static_cast<unsigned>(CeilDiv(m, kTile)), static_cast<unsigned>(CeilDiv(n, kTile)),
                    static_cast<unsigned>(parts));
  Launch(MultiplyImplicitly<Product, Wide<Bias>, Out, Bias>, blocks, dim3(kThreads), 0, c.stream, p, m, n, k, bias,
         out);
}

// out (+)= the sum of the parts.
template <class A, class Out>
__global__ void AddPixelParts(const A* parts, int64_t count, int64_t elements, bool accumulate, Out* out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  A sum = 0;
  for (int64_t p = 0; p < count; ++p) sum += parts[p * elements + i];
  Store(out + i, accumulate ? As<A>(out[i]) + sum : sum);
}

// ---- cuDNN's weights: [out, taps, in] instead of [taps, in, out] ----
template <class T>
__global__ void OutputChannelsFirst(const T* from, T* to, int64_t inner, int64_t out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < inner * out) to[i] = from[i % inner * out + i / inner];
}
template <class T>
__global__ void OutputChannelsLast(const T* from, T* to, int64_t inner, int64_t out, bool accumulate) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= inner * out) return;
  const Wide<T> x = As<Wide<T>>(from[i % out * inner + i / out]);
  Store(to + i, accumulate ? As<Wide<T>>(to[i]) + x : x);
}
dim3 BlocksFor(int64_t elements) { return dim3(static_cast<unsigned>(CeilDiv(elements, 256))); }

LibraryConvolution Described(ConvolutionPass pass, DType type, DType result, bool bias, const Images& s) {
  return {.pass = pass,
          .type = type,
          .result = result,
          .bias = bias,
          .images = s.images,
          .height = s.height,
          .width = s.width,
          .in_channels = s.in,
          .out_height = s.out_height,
          .out_width = s.out_width,
          .out_channels = s.out,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .stride = s.stride,
          .padding = s.padding};
}

// The operands of the library: x, w and y as the operation names them, or their gradients.
struct OfLibrary {
  Tensor x, w, y, bias = {};
};
// Runs the library, with weights reordered into the workspace. Returns false if it was not done.
bool ByLibrary(const LibraryConvolution& described, const OfLibrary& on, bool accumulate, const Context& c) {
  if (!Convolutions::Available() || !WhyNotCudnn(described).empty()) return false;
  const auto copy_bytes = static_cast<size_t>(ops::rules::CudaWeightsCopy(on.w, on.w.dtype()).value());
  const int64_t inner = described.kernel_height * described.kernel_width * described.in_channels;
  const int64_t out = described.out_channels;
  const bool gradient = described.pass == ConvolutionPass::kWeights;
  GraphAddresses tensors = {};
  const auto set = [&tensors](GraphOperand operand, void* at) { tensors[static_cast<size_t>(operand)] = at; };
  set(GraphOperand::kX, At<std::byte>(on.x));
  set(GraphOperand::kW, c.workspace);
  set(GraphOperand::kY, At<std::byte>(on.y));
  set(GraphOperand::kBias, At<std::byte>(on.bias));
  bool done = false;
  ForFloat(on.w.dtype(), [&]<class W>() {
    W* copy = reinterpret_cast<W*>(c.workspace);
    if (!gradient)
      Launch(OutputChannelsFirst<W>, BlocksFor(on.w.numel()), dim3(256), 0, c.stream, At<W>(on.w), copy, inner, out);
    done = c.libraries.convolutions().Run(described, tensors, c.workspace + copy_bytes, c.workspace_bytes - copy_bytes,
                                          c.stream);
    if (gradient && done)
      Launch(OutputChannelsLast<W>, BlocksFor(on.w.numel()), dim3(256), 0, c.stream, copy, At<W>(on.w), inner, out,
             accumulate);
  });
  return done;
}

}  // namespace

void Compute(const ops::ConvolutionForward& o, const Context& c) {
  const Images s = ImagesOf(o.x, o.w, o.y, o.stride, o.padding);
  const DType type = o.x.dtype();
  if (ByLibrary(Described(ConvolutionPass::kForward, type, type, !o.bias.empty(), s),
                {.x = o.x, .w = o.w, .y = o.y, .bias = o.bias}, false, c)) {
    return;
  }
  ForFloat(type, [&]<class T>() {
    Multiply(ForwardProduct<T>{At<T>(o.x), At<T>(o.w), s}, s.out_pixels(), s.out, s.taps() * s.in, 1, At<T>(o.bias),
             At<T>(o.y), c);
  });
}

void Compute(const ops::ConvolutionBackward& o, const Context& c) {
  const Images s = ImagesOf(o.dx, o.w, o.dy, o.stride, o.padding);
  const DType type = o.dy.dtype();
  if (ByLibrary(Described(ConvolutionPass::kBackward, type, type, false, s), {.x = o.dx, .w = o.w, .y = o.dy}, false,
                c))
    return;
  ForFloat(type, [&]<class T>() {
    Multiply(BackwardProduct<T>{At<T>(o.dy), At<T>(o.w), s}, s.pixels(), s.in, s.taps() * s.out, 1,
             static_cast<const T*>(nullptr), At<T>(o.dx), c);
  });
}

void Compute(const ops::ConvolutionWeights& o, const Context& c) {
  const Images s = ImagesOf(o.x, o.dw, o.dy, o.stride, o.padding);
  if (ByLibrary(Described(ConvolutionPass::kWeights, o.x.dtype(), o.dw.dtype(), false, s),
                {.x = o.x, .w = o.dw, .y = o.dy}, o.accumulate, c)) {
    return;
  }
  ForFloat(o.x.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const int64_t parts = ops::rules::CudaPixelParts(o);
    A* sums = reinterpret_cast<A*>(c.workspace);
    Multiply(WeightsProduct<T>{At<T>(o.x), At<T>(o.dy), s}, s.taps() * s.in, s.out, s.out_pixels(), parts,
             static_cast<const T*>(nullptr), sums, c);
    ForFloat(o.dw.dtype(), [&]<class Out>() {
      Launch(AddPixelParts<A, Out>, BlocksFor(o.dw.numel()), dim3(256), 0, c.stream, sums, parts, o.dw.numel(),
             o.accumulate, At<Out>(o.dw));
    });
  });
}

}  // namespace twofold::cuda
