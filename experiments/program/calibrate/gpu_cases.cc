#include "experiments/program/calibrate/gpu_cases.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/philox.h"
#include "experiments/program/calibrate/case_list.h"

namespace twofold::calibrate {
namespace {

constexpr double kMostFlops = 9e12;        // BF16 and F16: ten milliseconds
constexpr double kMostWideFlops = 2.2e12;  // of f32

Sizes RowsOf(Fineness f) {
  if (f == Fineness::kTiny) return {16, 64};
  if (f == Fineness::kCoarse) return {256, 1024, 4096, 16384};
  return {256, 1024, 2048, 4096, 8192, 16384, 32768};
}
Sizes FeaturesOf(Fineness f) {
  if (f == Fineness::kTiny) return {16, 64};
  if (f == Fineness::kCoarse) return {256, 768, 1536, 3072, 8192, 65536, 131072};
  return {256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 65536, 131072};
}

bool Within(const GpuProduct& p, double most_flops, int64_t most_elements) {
  const double flops = 2 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k);
  return flops <= most_flops && std::max({p.m * p.k, p.k * p.n, p.m * p.n}) <= most_elements;
}

// Number i of a fixed sequence in [0, 1).
double Uniform(uint64_t i) { return static_cast<double>(MakeKey(41, i).value >> 11) * 0x1p-53; }

// A multiple of `of` between low and high, uniform on a logarithmic scale.
int64_t Between(uint64_t draw, double low, double high, int64_t of) {
  const double x = std::exp(std::log(low) + Uniform(draw) * std::log(high / low));
  return std::max<int64_t>(of, static_cast<int64_t>(x) / of * of);
}

constexpr std::string_view kKinds[] = {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_gelu", "matmul_gelu_slope"};
constexpr int kPlainKinds = 3;
constexpr int64_t kMostGeluFeatures = 8192;  // of a hidden layer
constexpr int64_t kMostFp8Size = 16384;

GpuProduct OfLayer(std::string_view kernel, int64_t rows, int64_t f, int64_t g) {
  if (kernel == "matmul_tn") return {kernel, f, g, rows};
  return {kernel, rows, f, g};
}

class List : public CaseList {
 public:
  List(bool tiny, int64_t most_elements)
      : CaseList({.flops = kMostWideFlops, .elements = most_elements}), tiny_(tiny) {}

  std::vector<GpuCase> All() {
    const Fineness fine = tiny_ ? Fineness::kTiny : Fineness::kFine,
                   coarse = tiny_ ? Fineness::kTiny : Fineness::kCoarse;
    Type(DType::kBF16, fine, fine, kMostFlops);
    ProductsInFp8(coarse);
    Type(DType::kF32, coarse, fine, kMostWideFlops);
    tf32_ = true;
    Products(DType::kF32, coarse, kMostFlops);
    tf32_ = false;
    Type(DType::kF16, coarse, coarse, kMostFlops);
    Clip();
    Keep(false);
    return std::move(all_);
  }

 private:
  void Type(DType t, Fineness products, Fineness rest, double most_flops) {
    Products(t, products, most_flops);
    Attention(t, rest, most_flops / 4);
    Rows(t, rest);
    Experts(t);
    Elements(t, rest);
    Images(t);
    Keep(false);
  }
  // Keeps what was added since the last call, with these settings.
  void Keep(bool between) {
    for (Case& c : Take()) all_.push_back({std::move(c), tf32_, between});
  }

  void Products(DType t, Fineness f, double most_flops) {
    const int64_t elements = limits().elements * 4 / ElementSize(t);
    for (const GpuProduct& p : ProductGrid(f, most_flops, elements)) Product(t, p.kernel, p.m, p.n, p.k);
    Keep(false);
    for (const GpuProduct& p : ProductsBetween(f, most_flops, elements)) Product(t, p.kernel, p.m, p.n, p.k);
    Keep(true);
  }

  // Of layers in blocks: heads, which are wider, have none.
  void ProductsInFp8(Fineness f) {
    for (const GpuProduct& p : ProductGrid(f, kMostFlops, limits().elements * 4)) {
      if (std::max({p.m, p.n, p.k}) <= kMostFp8Size) ProductInFp8(p.kernel, p.m, p.n, p.k);
    }
    Keep(false);
  }

  void Attention(DType t, Fineness f, double most_flops) {
    const bool fine = f == Fineness::kFine;
    for (const int64_t h : tiny_  ? Sizes{2, 4}
                           : fine ? Sizes{8, 16, 32, 64, 96, 128, 192, 256, 512}
                                  : Sizes{8, 32, 128, 512}) {
      for (const int64_t length : tiny_  ? Sizes{16, 32}
                                  : fine ? Sizes{128, 256, 512, 1024, 2048, 4096}
                                         : Sizes{256, 1024, 4096}) {
        for (const int64_t d : tiny_ ? Sizes{16} : Sizes{64, 128}) {
          const double scores = static_cast<double>(h * length) * static_cast<double>(length);
          if (5 * scores * static_cast<double>(d) > most_flops || 3 * h * length * d > limits().elements) continue;
          Attend(t, h, length, d);
          const bool some = tiny_ ? h == 4 : (h == 8 || h == 64 || h == 512) && length >= 512 && d == 64;
          if (some) AttendInRing(t, h, length, d);
          if (some && static_cast<int64_t>(scores) <= limits().elements) AttendUnfused(t, h, length, d);
        }
      }
    }
  }

  void Rows(DType t, Fineness f) {
    const Sizes columns = tiny_                  ? Sizes{64, 128}
                          : f == Fineness::kFine ? Sizes{64, 256, 512, 1024, 2048, 4096, 8192, 16384}
                                                 : Sizes{256, 1024, 4096, 16384};
    const Sizes classes = tiny_                  ? Sizes{64, 128}
                          : f == Fineness::kFine ? Sizes{64, 1024, 16384, 65536, 131072}
                                                 : Sizes{1024, 65536};
    for (const int64_t r : tiny_                  ? Sizes{16, 64}
                           : f == Fineness::kFine ? Sizes{64, 512, 1024, 2048, 4096, 8192, 16384, 32768}
                                                  : Sizes{512, 4096, 32768}) {
      for (const int64_t c : columns) {
        if (2 * r * c > limits().elements) continue;
        ByRow(t, r, c);
        RoundToFp8(t, r, c);
        if (t == DType::kBF16 && (tiny_ || r >= 4096)) RoundToFp8InHalves(t, r, c);
      }
      for (const int64_t c : classes) {
        if (r * c <= limits().elements) Losses(t, r, c);
      }
    }
  }

  void Experts(DType t) {
    for (const int64_t tokens : tiny_ ? Sizes{64} : Sizes{1024, 8192}) {
      for (const int64_t e : {8, 64}) Route(t, tokens, e);
      for (const int64_t c : tiny_ ? Sizes{32} : Sizes{512, 2048}) {
        Exchange(t, tokens, c);
        for (const int64_t out : {c, 4 * c}) ExpertProducts(t, tokens / 4, c, out);
      }
    }
  }

  void Elements(DType t, Fineness f) {
    constexpr int64_t kMebi = int64_t{1} << 20;
    Sizes all = {1, 4096, 65536, kMebi / 4, kMebi, 4 * kMebi, 16 * kMebi, 64 * kMebi, 256 * kMebi};
    if (f == Fineness::kCoarse) all = {1, 65536, kMebi, 16 * kMebi, 256 * kMebi};
    if (tiny_) all = {1, 4096};
    for (const int64_t n : all) {
      if (n > limits().elements) continue;
      Element(t, n);
      Step(t, n);
      if (n == 4096 || n == kMebi || n == 16 * kMebi) Codecs(t, n);
    }
  }

  void Images(DType t) {
    for (const int64_t side : tiny_ ? Sizes{4} : Sizes{8, 32}) {
      const int64_t images = tiny_ ? 2 : 64;
      for (const int64_t out : tiny_ ? Sizes{16} : Sizes{16, 64, 256}) {
        for (const int64_t in : tiny_ ? Sizes{3, 16} : Sizes{3, 16, 64, 256}) {
          Convolve(t, {images, side, side, in}, 3, out, 1);
          if (in >= 16) Convolve(t, {images, 2 * side, 2 * side, in}, 1, out, 2);
        }
      }
      for (const int64_t c : tiny_ ? Sizes{16} : Sizes{16, 64, 256}) Normalise(t, {images, side, side, c});
    }
    for (const int64_t side : tiny_ ? Sizes{16} : Sizes{112, 224}) {
      Convolve(t, {tiny_ ? 1 : 16, side, side, 3}, 7, 64, 2);
      Pool(t, {tiny_ ? 1 : 16, side / 2, side / 2, 64});
    }
  }

  const bool tiny_;
  bool tf32_ = false;
  std::vector<GpuCase> all_;
};

}  // namespace

std::vector<GpuProduct> ProductGrid(Fineness fineness, double most_flops, int64_t most_elements) {
  std::vector<GpuProduct> products;
  const Sizes features = FeaturesOf(fineness);
  for (const int64_t rows : RowsOf(fineness)) {
    for (const int64_t f : features) {
      for (const int64_t g : features) {
        for (const std::string_view kernel : kKinds) {
          if (kernel.starts_with("matmul_gelu") && std::max(f, g) > kMostGeluFeatures) continue;
          const GpuProduct p = OfLayer(kernel, rows, f, g);
          if (Within(p, most_flops, most_elements) && f * g <= int64_t{1} << 28) products.push_back(p);
        }
      }
    }
  }
  return products;
}

// Every fifth product has a feature count that leaves rows unaligned.
std::vector<GpuProduct> ProductsBetween(Fineness fineness, double most_flops, int64_t most_elements) {
  const uint64_t count = fineness == Fineness::kTiny ? 9 : fineness == Fineness::kCoarse ? 150 : 450;
  std::vector<GpuProduct> products;
  for (uint64_t i = 0; products.size() < count; ++i) {
    const uint64_t number = products.size();
    const bool tiny = fineness == Fineness::kTiny;
    const int64_t rows = tiny ? Between(4 * i, 16, 65, 16) : Between(4 * i, 256, 33000, 64);
    int64_t f = tiny ? Between(4 * i + 1, 16, 65, 16) : Between(4 * i + 1, 256, 8200, 64);
    const int64_t g = tiny ? Between(4 * i + 2, 16, 65, 16) : Between(4 * i + 2, 256, 8200, 64);
    if (number % 5 == 4) f += std::array<int64_t, 3>{1, 2, 4}[number / 5 % 3];
    const GpuProduct p = OfLayer(kKinds[number / 3 % kPlainKinds], rows, f, g);
    if (Within(p, most_flops, most_elements)) products.push_back(p);
  }
  return products;
}

std::vector<GpuCase> GpuCases(bool tiny, int64_t most_elements) { return List(tiny, most_elements).All(); }

Tensor GpuArena::Tokens(Shape shape, int64_t below) {
  Tensor& tokens = tokens_[{shape.numel(), below}];
  if (tokens.empty()) {
    tokens = Numbers(Shape{shape.numel()}, [below](int64_t i) {
      return static_cast<int64_t>(MakeKey(43, static_cast<uint64_t>(i)).value % static_cast<uint64_t>(below));
    });
  }
  return tokens.View(std::move(shape));
}

}  // namespace twofold::calibrate
