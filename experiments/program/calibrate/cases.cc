#include "experiments/program/calibrate/cases.h"

#include <algorithm>

#include "experiments/program/calibrate/case_list.h"

namespace twofold::calibrate {
namespace {

class CpuCases : public CaseList {
 public:
  explicit CpuCases(bool quick) : CaseList({.flops = 2.2e9, .elements = int64_t{4} << 20}), quick_(quick) {}

  void AddAll() {
    for (const DType t : {DType::kF32, DType::kBF16}) {
      Products(t);
      ProductsWithGelu(t);
      if (t == DType::kBF16) ProductsInFp8();
      Attention(t);
      Rows(t);
      Experts(t);
      Elements(t);
      if (t == DType::kF32) Steps();
      Images(t);
    }
  }

 private:
  // Layers: nn and nt have the sample rows as m; tn (weight gradients) sums over the rows, so they are k.
  void Products(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    const Sizes rows = fine ? Sizes{16, 64, 256, 512, 1024, 2048, 4096} : Sizes{64, 512, 2048};
    const Sizes features = fine ? Sizes{64, 128, 256, 512, 768, 1024, 3072} : Sizes{64, 256, 768};
    for (const int64_t r : rows) {
      for (const int64_t f : features) {
        for (const int64_t g : features) {
          if (2.0 * static_cast<double>(r) * static_cast<double>(f) * static_cast<double>(g) > limits().flops) continue;
          if (std::max({r * f, r * g, f * g}) > limits().elements) continue;
          Product(t, "matmul_nn", r, f, g);
          Product(t, "matmul_nt", r, f, g);
          Product(t, "matmul_tn", f, g, r);
        }
      }
    }
  }

  // A GELU fused into the product before it, with n = 4 k, and its gradient fused into the product after it.
  void ProductsWithGelu(DType t) {
    for (const int64_t r : quick_ ? Sizes{64, 512} : Sizes{64, 512, 2048}) {
      for (const int64_t f : {64, 256, 768}) {
        if (8.0 * static_cast<double>(r * f * f) > limits().flops || 4 * r * f > limits().elements) continue;
        Product(t, "matmul_gelu", r, 4 * f, f);
        Product(t, "matmul_gelu_slope", r, 4 * f, f);
      }
    }
  }

  // With and without a GELU. Operands are widened, which takes longest beside a product of few rows.
  void ProductsInFp8() {
    for (const int64_t r : quick_ ? Sizes{64, 512} : Sizes{64, 512, 2048}) {
      for (const int64_t f : {64, 256, 768}) {
        for (const int64_t g : {64, 256, 768}) {
          if (2.0 * static_cast<double>(r * f * g) > limits().flops) continue;
          ProductInFp8("matmul_nn", r, f, g);
          ProductInFp8("matmul_nt", r, f, g);
          ProductInFp8("matmul_tn", f, g, r);
        }
        if (8.0 * static_cast<double>(r * f * f) > limits().flops || 4 * r * f > limits().elements) continue;
        ProductInFp8("matmul_gelu", r, 4 * f, f);
        ProductInFp8("matmul_gelu_slope", r, 4 * f, f);
      }
    }
  }

  void Attention(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    const Sizes heads = fine ? Sizes{1, 4, 16, 64} : Sizes{4, 32};
    const Sizes lengths = fine ? Sizes{32, 64, 128, 256, 512, 1024} : Sizes{64, 256};
    const Sizes widths = fine ? Sizes{16, 32, 64} : Sizes{32, 64};
    for (const int64_t h : heads) {
      for (const int64_t length : lengths) {
        for (const int64_t d : widths) {
          const double scores = static_cast<double>(h) * static_cast<double>(length) * static_cast<double>(length);
          if (5 * scores * static_cast<double>(d) <= limits().flops) Attend(t, h, length, d);
          const bool in_rings = length == 64 || length == 256 || length == 1024;
          if (in_rings && 5 * scores * static_cast<double>(d) <= limits().flops) AttendInRing(t, h, length, d);
          const bool unfused =
              (length == 64 || length == 256) && d >= 32 && scores <= static_cast<double>(limits().elements);
          if (unfused) AttendUnfused(t, h, length, d);
        }
      }
    }
  }

  void Rows(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    for (const int64_t r : fine ? Sizes{16, 64, 512, 4096} : Sizes{64, 2048}) {
      for (const int64_t c : fine ? Sizes{64, 256, 1024, 3072} : Sizes{64, 768}) {
        if (r * c > limits().elements) continue;
        ByRow(t, r, c);
        RoundToFp8(t, r, c);
        if (t == DType::kBF16) RoundToFp8InHalves(t, r, c);
        Losses(t, r, c);
      }
    }
  }

  // Tokens that go to two of eight experts each, with no token dropped, and the experts' products.
  void Experts(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    for (const int64_t tokens : fine ? Sizes{64, 512, 4096} : Sizes{64, 2048}) {
      for (const int64_t e : {8, 64}) Route(t, tokens, e);
      for (const int64_t c : fine ? Sizes{64, 256, 1024} : Sizes{64, 768}) {
        if (2 * tokens * c > limits().elements) continue;
        Exchange(t, tokens, c);
        for (const int64_t out : {c, 4 * c}) ExpertProducts(t, tokens / 4, c, out);
      }
    }
  }

  Sizes Numbers() const {
    return quick_ ? Sizes{1, 4096, 262144, 4194304} : Sizes{1, 64, 1024, 16384, 65536, 262144, 1048576, 4194304};
  }
  void Elements(DType t) {
    for (const int64_t n : Numbers()) {
      if (t == DType::kF32 || (n != 64 && n != 65536)) Element(t, n);
      if (n >= 4096) Codecs(t, n);
    }
  }

  // Residual networks: from the first stage of a small one (many pixels, few channels) to the last stage of a large
  // one.
  void Images(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    for (const int64_t side : fine ? Sizes{4, 8, 16, 32} : Sizes{8, 32}) {
      const int64_t images = side <= 8 ? 8 : side;  // 128 to 32768 pixels
      for (const int64_t out : fine ? Sizes{16, 32, 64, 256} : Sizes{16, 128}) {
        for (const int64_t in : fine ? Sizes{3, 16, 32, 64, 256} : Sizes{3, 16, 128}) {
          Convolve(t, {images, side, side, in}, 3, out, 1);
          if (in >= 16) Convolve(t, {images, 2 * side, 2 * side, in}, 1, out, 2);
        }
      }
      for (const int64_t c : fine ? Sizes{16, 64, 256} : Sizes{16, 128}) Normalise(t, {images, side, side, c});
    }
    for (const int64_t side : fine ? Sizes{32, 112, 224} : Sizes{64}) {
      Convolve(t, {2, side, side, 3}, 7, 64, 2);
      Pool(t, {2, side / 2, side / 2, 64});
    }
  }

  void Steps() {
    for (const int64_t n : Numbers()) {
      Step(DType::kF32, n);
      if (n > 64 && n <= 1048576) Step(DType::kBF16, n);
    }
    Clip();
  }

  const bool quick_;
};

}  // namespace

std::vector<Case> Cases(bool quick) {
  CpuCases cases(quick);
  cases.AddAll();
  return cases.Take();
}

}  // namespace twofold::calibrate
