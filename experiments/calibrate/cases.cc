#include "experiments/calibrate/cases.h"

#include <algorithm>

namespace twofold::calibrate {
namespace {

using Sizes = std::vector<int64_t>;

// A product above this takes longer than it teaches: at this size the rate has settled.
constexpr double kMostFlops = 2.2e9;
constexpr int64_t kMostElements = int64_t{4} << 20;  // of one operand

class List {
 public:
  explicit List(bool quick) : quick_(quick) {}

  void AddAll() {
    Products(DType::kF32);
    Attention(DType::kF32);
    Rows(DType::kF32);
    Experts(DType::kF32);
    Elements(DType::kF32);
    Steps();
    Images(DType::kF32);
    Products(DType::kBF16);
    Attention(DType::kBF16);
    Rows(DType::kBF16);
    Experts(DType::kBF16);
    Elements(DType::kBF16);
    Images(DType::kBF16);
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  void Add(std::function<ops::Op(Operands&)> make) { cases_.push_back({std::move(make)}); }

  // Layers: nn and nt have rows of samples as m; tn (weight gradients) sums over them, so they are k.
  void Products(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    const Sizes rows = fine ? Sizes{16, 64, 256, 512, 1024, 2048, 4096} : Sizes{64, 512, 2048};
    const Sizes features = fine ? Sizes{64, 128, 256, 512, 768, 1024, 3072} : Sizes{64, 256, 768};
    for (const int64_t r : rows) {
      for (const int64_t f : features) {
        for (const int64_t g : features) {
          if (2.0 * static_cast<double>(r) * static_cast<double>(f) * static_cast<double>(g) > kMostFlops) continue;
          if (std::max({r * f, r * g, f * g}) > kMostElements) continue;
          Product(t, r, f, g, false, false);
          Product(t, r, f, g, false, true);
          Product(t, f, g, r, true, false);
        }
      }
    }
  }
  void Product(DType t, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    Add([=](Operands& arena) {
      ops::MatMul op;
      op.a = arena.Input(ta ? Shape{k, m} : Shape{m, k}, t);
      op.b = arena.Input(tb ? Shape{n, k} : Shape{k, n}, t);
      op.out = arena.Output(Shape{m, n}, t);
      op.transpose_a = ta, op.transpose_b = tb;
      return op;
    });
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
          if (5 * scores * static_cast<double>(d) <= kMostFlops) Attend(t, h, length, d);
          const bool in_rings = length == 64 || length == 256 || length == 1024;
          if (in_rings && 5 * scores * static_cast<double>(d) <= kMostFlops) AttendInRing(t, h, length, d);
          const bool unfused = (length == 64 || length == 256) && d >= 32 && scores <= static_cast<double>(kMostElements);
          if (unfused) AttendUnfused(t, h, length, d);
        }
      }
    }
  }
  // The products and the softmax of attention whose scores are stored, its heads side by side in qkv.
  void AttendUnfused(DType t, int64_t batch_heads, int64_t length, int64_t d) {
    const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
    const auto columns = [=](Tensor x) { return ops::Matrices{x, x.dim(2), length * x.dim(2), d}; };
    const auto scores = [=](Tensor x) { return ops::Matrices{x, length, heads * length * length, length * length}; };
    const Shape wide{batch, length, 3 * c}, square{batch, heads, length, length};
    Add([=](Operands& a) {
      return ops::BatchedMatMul{.a = columns(a.Input(wide, t)), .b = columns(a.Input(wide, t)), .out = scores(a.Output(square, t)),
                                .batches = batch, .heads = heads, .m = length, .n = length, .k = d, .transpose_b = true};
    });
    for (const bool transpose : {false, true}) {
      Add([=](Operands& a) {
        return ops::BatchedMatMul{.a = scores(a.Input(square, t)), .b = columns(a.Input(wide, t)),
                                  .out = columns(a.Output(wide, t)), .batches = batch, .heads = heads, .m = length, .n = d,
                                  .k = length, .transpose_a = transpose};
      });
    }
    Add([=](Operands& a) { return ops::SoftmaxForward{.x = a.Input(square, t), .y = a.Output(square, t)}; });
    Add([=](Operands& a) {
      return ops::SoftmaxBackward{.y = a.Input(square, t), .dy = a.Input(square, t), .dx = a.Output(square, t)};
    });
  }
  void Attend(DType t, int64_t batch_heads, int64_t length, int64_t d) {
    const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
    Add([=](Operands& arena) {
      return ops::AttentionForward{.qkv = arena.Input({batch, length, 3 * c}, t), .out = arena.Output({batch, length, c}, t),
                                   .lse = arena.Output({batch, heads, length}, ops::AccumulationType(t)),
                                   .heads = heads, .kv_heads = heads};
    });
    Add([=](Operands& arena) {
      return ops::AttentionBackward{.qkv = arena.Input({batch, length, 3 * c}, t), .out = arena.Input({batch, length, c}, t),
                                    .lse = arena.Input({batch, heads, length}, ops::AccumulationType(t)),
                                    .dout = arena.Input({batch, length, c}, t),
                                    .dqkv = arena.Output({batch, length, 3 * c}, t), .heads = heads, .kv_heads = heads};
    });
  }

  // The rectangles of a ring's steps: a rank's own tokens, the first half of others' keys, its second half of queries.
  void AttendInRing(DType t, int64_t batch_heads, int64_t length, int64_t d) {
    const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d, half = length / 2;
    const DType wide = ops::AccumulationType(t);
    const ops::AttentionBlock whole{.heads = heads, .kv_heads = heads, .head_dim = d, .queries = length, .keys = length};
    ops::AttentionBlock diagonal = whole, keys = whole, queries = whole;
    diagonal.causal = true, keys.keys = half, queries.first_query = queries.queries = half;
    for (const ops::AttentionBlock& block : {diagonal, keys, queries}) {
      Add([=](Operands& a) {
        return ops::AttentionBlockForward{.q = a.Input({batch, length, 3 * c}, t), .kv = a.Input({batch, length, 2 * c}, t),
                                          .out = a.Output({batch, length, c}, wide), .lse = a.Output({batch, heads, length}, wide),
                                          .block = block, .merge = !block.causal};
      });
      Add([=](Operands& a) {
        return ops::AttentionBlockBackward{.q = a.Input({batch, length, 3 * c}, t), .kv = a.Input({batch, length, 2 * c}, t),
                                           .out = a.Input({batch, length, c}, t), .lse = a.Input({batch, heads, length}, wide),
                                           .dout = a.Input({batch, length, c}, t), .dq = a.Output({batch, length, 3 * c}, wide),
                                           .dkv = a.Output({batch, length, 2 * c}, wide), .block = block,
                                           .accumulate = !block.causal};
      });
    }
  }

  void Rows(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    for (const int64_t r : fine ? Sizes{16, 64, 512, 4096} : Sizes{64, 2048}) {
      for (const int64_t c : fine ? Sizes{64, 256, 1024, 3072} : Sizes{64, 768}) {
        if (r * c <= kMostElements) ByRow(t, r, c);
      }
    }
  }
  void ByRow(DType t, int64_t r, int64_t c) {
    const DType wide = ops::AccumulationType(t);
    Add([=](Operands& a) { return ops::ColumnSum{.in = a.Input({r, c}, t), .out = a.Output({c}, t)}; });
    Add([=](Operands& a) { return ops::AddBias{.x = a.Input({r, c}, t), .bias = a.Input({c}, t), .out = a.Output({r, c}, t)}; });
    Add([=](Operands& a) {
      return ops::EmbeddingForward{.ids = a.Ids({r}), .table = a.Input({Operands::kIds, c}, t), .out = a.Output({r, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::EmbeddingBackward{.ids = a.Ids({r}), .dy = a.Input({r, c}, t), .dtable = a.Output({Operands::kIds, c}, t)};
    });
    const int64_t length = std::min<int64_t>(r, 64);
    Add([=](Operands& a) {
      return ops::PositionForward{.x = a.Input({r / length, length, c}, t), .table = a.Input({length, c}, t),
                                  .out = a.Output({r / length, length, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::PositionBackward{.dy = a.Input({r / length, length, c}, t), .dtable = a.Output({length, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::LayerNormForward{.x = a.Input({r, c}, t), .gamma = a.Input({c}, t), .beta = a.Input({c}, t),
                                   .y = a.Output({r, c}, t), .mean = a.Output({r}, wide), .rstd = a.Output({r}, wide)};
    });
    Add([=](Operands& a) {
      return ops::LayerNormBackward{.dy = a.Input({r, c}, t), .x = a.Input({r, c}, t), .gamma = a.Input({c}, t),
                                    .mean = a.Input({r}, wide), .rstd = a.Input({r}, wide), .dx = a.Output({r, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::LayerNormWeights{.dy = a.Input({r, c}, t), .x = a.Input({r, c}, t), .mean = a.Input({r}, wide),
                                   .rstd = a.Input({r}, wide), .dgamma = a.Output({c}, t), .dbeta = a.Output({c}, t)};
    });
    Add([=](Operands& a) {
      return ops::RmsNormForward{.x = a.Input({r, c}, t), .gamma = a.Input({c}, t), .y = a.Output({r, c}, t),
                                 .rstd = a.Output({r}, wide)};
    });
    Add([=](Operands& a) {
      return ops::RmsNormBackward{.dy = a.Input({r, c}, t), .x = a.Input({r, c}, t), .gamma = a.Input({c}, t),
                                  .rstd = a.Input({r}, wide), .dx = a.Output({r, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::RmsNormWeights{.dy = a.Input({r, c}, t), .x = a.Input({r, c}, t), .rstd = a.Input({r}, wide),
                                 .dgamma = a.Output({c}, t)};
    });
    if (2 * r * c <= kMostElements) {
      Add([=](Operands& a) { return ops::SwiGluForward{.x = a.Input({r, 2 * c}, t), .y = a.Output({r, c}, t)}; });
      Add([=](Operands& a) {
        return ops::SwiGluBackward{.x = a.Input({r, 2 * c}, t), .dy = a.Input({r, c}, t), .dx = a.Output({r, 2 * c}, t)};
      });
    }
    Add([=](Operands& a) {
      return ops::CopyColumns{.in = a.Input({r, c}, t), .out = a.Output({r, c / 2}, t), .in_column = c - c / 2, .columns = c / 2};
    });
    Add([=](Operands& a) {  // of qkv, two thirds are turned
      return ops::Rotary{.x = a.Input({r / length, length, c}, t), .table = a.Input({length, 32}, wide),
                         .y = a.Output({r / length, length, c}, t), .heads = c * 2 / 3 / 32};
    });
    Add([=](Operands& a) {
      return ops::CrossEntropyForward{.logits = a.Input({r, c}, t), .targets = a.Ids({r}),
                                      .losses = a.Output({r}, wide), .lse = a.Output({r}, wide)};
    });
    Add([=](Operands& a) {
      return ops::CrossEntropyBackward{.logits = a.Input({r, c}, t), .targets = a.Ids({r}), .lse = a.Input({r}, wide),
                                       .dlogits = a.Output({r, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::CountCorrect{.logits = a.Input({r, c}, t), .targets = a.Ids({r}), .out = a.Output({1}, wide)};
    });
    Add([=](Operands& a) { return ops::SplitMax{.logits = a.Input({r, c}, t), .largest = a.Output({r}, wide), .classes = c}; });
    Add([=](Operands& a) {
      return ops::SplitSums{.logits = a.Input({r, c}, t), .targets = a.Ids({r}), .largest = a.Input({r}, wide),
                            .sums = a.Output({2, r}, wide), .classes = c};
    });
    Add([=](Operands& a) {
      return ops::SplitBackward{.logits = a.Input({r, c}, t), .targets = a.Ids({r}), .lse = a.Input({r}, wide),
                                .dlogits = a.Output({r, c}, t), .classes = c};
    });
  }

  // Tokens that each go to two of eight experts, with as much room as they need, and the experts' products.
  void Experts(DType t) {
    const bool fine = t == DType::kF32 && !quick_;
    for (const int64_t tokens : fine ? Sizes{64, 512, 4096} : Sizes{64, 2048}) {
      for (const int64_t e : {8, 64}) Route(t, tokens, e);
      for (const int64_t c : fine ? Sizes{64, 256, 1024} : Sizes{64, 768}) {
        if (2 * tokens * c > kMostElements) continue;
        Exchange(t, tokens, c);
        for (const int64_t out : {c, 4 * c}) ExpertProducts(t, tokens / 4, c, out);
      }
    }
  }
  void Route(DType t, int64_t tokens, int64_t experts) {
    const DType wide = ops::AccumulationType(t);
    Add([=](Operands& a) {
      return ops::RouteForward{.logits = a.Input({tokens, experts}, t), .probabilities = a.Output({tokens, experts}, wide),
                               .weights = a.Output({tokens, 2}, wide), .choices = a.Choices(tokens, 2, experts)};
    });
    Add([=](Operands& a) {
      return ops::RouteBackward{.probabilities = a.State({tokens, experts}, wide), .dweights = a.Input({tokens, 2}, wide),
                                .choices = a.Choices(tokens, 2, experts), .dlogits = a.Output({tokens, experts}, t), .balance = 0.01};
    });
  }
  void Exchange(DType t, int64_t tokens, int64_t c) {
    constexpr int64_t kExperts = 8, kTopK = 2;
    const Shape slots{kExperts, tokens * kTopK / kExperts, c};
    const DType wide = ops::AccumulationType(t);
    const auto choices = [=](Operands& a) { return a.Choices(tokens, kTopK, kExperts); };
    Add([=](Operands& a) { return ops::Dispatch{.x = a.Input({tokens, c}, t), .choices = choices(a), .slots = a.Output(slots, t)}; });
    Add([=](Operands& a) {
      return ops::Combine{.slots = a.Input(slots, t), .choices = choices(a), .weights = a.Input({tokens, kTopK}, wide), .y = a.Output({tokens, c}, t)};
    });
    Add([=](Operands& a) {
      return ops::CombineWeights{.slots = a.Input(slots, t), .choices = choices(a), .dy = a.Input({tokens, c}, t),
                                 .dweights = a.Output({tokens, kTopK}, wide)};
    });
  }
  // A layer's three products: forward, and the gradients of its input and of its weights.
  void ExpertProducts(DType t, int64_t rows, int64_t in, int64_t out) {
    constexpr int64_t kExperts = 8;
    if (2.0 * kExperts * static_cast<double>(rows * in) * static_cast<double>(out) > kMostFlops) return;
    if (kExperts * std::max({in * out, rows * in, rows * out}) > kMostElements) return;
    const auto matrices = [](Tensor x, int64_t r, int64_t c) { return ops::Matrices{.tensor = x, .stride = c, .batch = r * c}; };
    Add([=](Operands& a) {
      return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, in}, t), rows, in), .b = matrices(a.Input({kExperts * out, in}, t), out, in),
                                .out = matrices(a.Output({kExperts * rows, out}, t), rows, out), .batches = kExperts, .m = rows, .n = out,
                                .k = in, .transpose_b = true};
    });
    Add([=](Operands& a) {
      return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, out}, t), rows, out), .b = matrices(a.Input({kExperts * out, in}, t), out, in),
                                .out = matrices(a.Output({kExperts * rows, in}, t), rows, in), .batches = kExperts, .m = rows, .n = in, .k = out};
    });
    Add([=](Operands& a) {
      return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, out}, t), rows, out), .b = matrices(a.Input({kExperts * rows, in}, t), rows, in),
                                .out = matrices(a.Output({kExperts * out, in}, t), out, in), .batches = kExperts, .m = out, .n = in, .k = rows,
                                .transpose_a = true};
    });
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
  void Element(DType t, int64_t n) {
    const DType other = t == DType::kF32 ? DType::kBF16 : DType::kF32, wide = ops::AccumulationType(t);
    Add([=](Operands& a) { return ops::Fill{.out = a.Output({n}, t)}; });
    Add([=](Operands& a) { return ops::Cast{.in = a.Input({n}, t), .out = a.Output({n}, other)}; });
    Add([=](Operands& a) { return ops::Affine{.in = a.Ids({n}), .out = a.Output({n}, t), .scale = 0.5}; });
    Add([=](Operands& a) { return ops::AddRelu{.a = a.Input({n}, t), .b = a.Input({n}, t), .out = a.Output({n}, t)}; });
    Add([=](Operands& a) { return ops::Add{.a = a.Input({n}, t), .b = a.Input({n}, t), .out = a.Output({n}, t)}; });
    Add([=](Operands& a) { return ops::AddTo{.in = a.Input({n}, t), .out = a.Output({n}, t)}; });
    Add([=](Operands& a) { return ops::Scale{.x = a.Output({n}, t), .factor = 0.5}; });
    Add([=](Operands& a) { return ops::Sum{.in = a.Input({n}, t), .out = a.Output({1}, wide)}; });
    Add([=](Operands& a) { return ops::SquaredNorm{.in = a.Input({n}, t), .out = a.Output({1}, wide)}; });
    Add([=](Operands& a) {
      return ops::Dropout{.x = a.Input({n}, t), .y = a.Output({n}, t), .p = 0.1, .key = MakeKey(1, "dropout")};
    });
    Add([=](Operands& a) {
      return ops::MaskedDropoutForward{.x = a.Input({n}, t), .y = a.Output({n}, t), .mask = a.Ids({n}), .p = 0.1,
                                       .key = MakeKey(1, "dropout")};
    });
    Add([=](Operands& a) {
      return ops::MaskedDropoutBackward{.dy = a.Input({n}, t), .mask = a.Ids({n}), .dx = a.Output({n}, t), .p = 0.1};
    });
    if (n <= 262144) {  // slow, and needed once a run
      if (t == DType::kF32 && n >= 64) {
        Add([=](Operands& a) {
          return ops::RotaryTable{.table = a.Output({n / 64, 64}, t), .frequencies = std::vector<double>(32, 0.1)};
        });
      }
      Add([=](Operands& a) { return ops::RandomFill{.out = a.Output({n}, t), .key = MakeKey(1, "fill")}; });
      if (t == wide && n <= kMostElements / 4) {
        Add([=](Operands& a) {
          return ops::SplitLosses{.largest = a.Input({n}, t), .sums = a.Input({2, n}, t), .losses = a.Output({n}, t), .lse = a.Output({n}, t)};
        });
        Add([=](Operands& a) { return ops::SplitCorrect{.sums = a.Input({3, n}, t), .out = a.Output({1}, t)}; });
      }
    }
    for (const auto kind : {ops::ActivationForward::kRelu, ops::ActivationForward::kGelu}) {
      Add([=](Operands& a) { return ops::ActivationForward{.kind = kind, .x = a.Input({n}, t), .y = a.Output({n}, t)}; });
      Add([=](Operands& a) {
        return ops::ActivationBackward{.kind = kind, .x = a.Input({n}, t), .dy = a.Input({n}, t), .dx = a.Output({n}, t)};
      });
    }
  }

  // One element in a hundred, 8 bits an element, 1 bit an element.
  void Codecs(DType t, int64_t n) {
    const DType wide = ops::AccumulationType(t);
    const int64_t k = n / 100, quantised = (n + ops::kQuantBlock - 1) / ops::kQuantBlock, signed_blocks = (n + ops::kSignBlock - 1) / ops::kSignBlock;
    Add([=](Operands& a) {
      return ops::TopK{.in = a.Input({n}, t), .values = a.Output({k}, t), .indices = a.Output({k}, DType::kI32), .residual = a.Output({n}, t)};
    });
    Add([=](Operands& a) { return ops::RandomPlaces{.out = a.Output({k}, DType::kI32), .n = n, .key = MakeKey(1, "places")}; });
    Add([=](Operands& a) { return ops::GatherElements{.in = a.Input({n}, t), .indices = a.Places(k, n), .values = a.Output({k}, t)}; });
    Add([=](Operands& a) {
      return ops::ScatterElements{.values = a.Input({k}, t), .indices = a.Places(k, n), .out = a.Output({n}, t), .accumulate = true};
    });
    for (const bool stochastic : {false, true}) {
      Add([=](Operands& a) {
        return ops::Quantise{.in = a.Input({n}, t), .codes = a.Output({n}, DType::kU8), .scales = a.Output({quantised}, wide),
                             .residual = a.Output({n}, t), .stochastic = stochastic, .key = MakeKey(1, "quantise")};
      });
    }
    Add([=](Operands& a) {
      return ops::Dequantise{.codes = a.Output({n}, DType::kU8), .scales = a.Input({quantised}, wide), .out = a.Output({n}, t)};
    });
    Add([=](Operands& a) {
      return ops::SignPack{.in = a.Input({n}, t), .signs = a.Output({(n + 7) / 8}, DType::kU8), .scales = a.Output({signed_blocks}, wide),
                           .residual = a.Output({n}, t)};
    });
    Add([=](Operands& a) {
      return ops::SignUnpack{.signs = a.Output({(n + 7) / 8}, DType::kU8), .scales = a.Input({signed_blocks}, wide), .out = a.Output({n}, t)};
    });
  }

  // Residual networks: from the first stage of a small one, many pixels of few channels, to the last of a large one.
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
  void Convolve(DType t, const Shape& x, int64_t kernel, int64_t out, int64_t stride) {
    const int64_t side = (x[1] - 1) / stride + 1, padding = kernel / 2;
    const Shape w{kernel, kernel, x[3], out}, y{x[0], side, side, out};
    const double flops = 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w.numel() / out);
    if (flops > kMostFlops / 2 || std::max({x.numel(), y.numel(), w.numel()}) > kMostElements) return;
    Add([=](Operands& a) {
      return ops::ConvolutionForward{
          .x = a.Input(x, t), .w = a.Input(w, t), .y = a.Output(y, t), .stride = stride, .padding = padding};
    });
    Add([=](Operands& a) {
      return ops::ConvolutionBackward{
          .dy = a.Input(y, t), .w = a.Input(w, t), .dx = a.Output(x, t), .stride = stride, .padding = padding};
    });
    Add([=](Operands& a) {
      return ops::ConvolutionWeights{
          .dy = a.Input(y, t), .x = a.Input(x, t), .dw = a.Output(w, t), .stride = stride, .padding = padding};
    });
  }
  void Normalise(DType t, const Shape& x) {
    const DType wide = ops::AccumulationType(t);
    const int64_t c = x[-1], rows = x.numel() / c;
    if (x.numel() > kMostElements) return;
    Add([=](Operands& a) { return ops::BatchNormStatistics{.x = a.Input(x, t), .statistics = a.Output({2, c}, wide)}; });
    Add([=](Operands& a) {
      return ops::BatchNormFinish{.parts = a.State({2, c}, wide), .running_mean = a.State({c}, wide),
                                  .running_variance = a.State({c}, wide), .mean = a.Output({c}, wide),
                                  .rstd = a.Output({c}, wide), .rows = rows};
    });
    for (const bool relu : {false, true}) {
      const auto mask = [=](Operands& a) { return relu ? a.Input(x, t) : Tensor(); };
      Add([=](Operands& a) {
        return ops::BatchNormForward{.x = a.Input(x, t), .gamma = a.Input({c}, t), .beta = a.Input({c}, t),
                                     .mean = a.Input({c}, wide), .rstd = a.Input({c}, wide), .y = a.Output(x, t), .relu = relu};
      });
      Add([=](Operands& a) {
        return ops::BatchNormSums{.dy = a.Input(x, t), .x = a.Input(x, t), .y = mask(a), .mean = a.Input({c}, wide),
                                  .rstd = a.Input({c}, wide), .sums = a.Output({2, c}, wide)};
      });
      Add([=](Operands& a) {
        return ops::BatchNormBackward{.dy = a.Input(x, t), .x = a.Input(x, t), .y = mask(a), .gamma = a.Input({c}, t),
                                      .mean = a.Input({c}, wide), .rstd = a.Input({c}, wide), .sums = a.Input({2, c}, wide),
                                      .dx = a.Output(x, t), .rows = rows};
      });
    }
    Add([=](Operands& a) { return ops::AveragePoolForward{.x = a.Input(x, t), .y = a.Output({x[0], c}, t)}; });
    Add([=](Operands& a) { return ops::AveragePoolBackward{.dy = a.Input({x[0], c}, t), .dx = a.Output(x, t)}; });
  }
  void Pool(DType t, const Shape& x) {
    const int64_t side = (x[1] - 1) / 2 + 1;
    const Shape y{x[0], side, side, x[3]};
    Add([=](Operands& a) {
      return ops::MaxPoolForward{.x = a.Input(x, t), .y = a.Output(y, t), .chosen = a.Ids(y), .size = 3, .stride = 2, .padding = 1};
    });
    Add([=](Operands& a) {
      return ops::MaxPoolBackward{.dy = a.Input(y, t), .chosen = a.Centres(y), .dx = a.Output(x, t), .size = 3, .stride = 2, .padding = 1};
    });
  }

  // Optimizers; rates of zero keep their operands where they are. bf16 parameters have an f32 master.
  void Steps() {
    for (const int64_t n : Numbers()) {
      Step(DType::kF32, n);
      if (n > 64 && n <= 1048576) Step(DType::kBF16, n);
    }
    Add([](Operands& a) { return ops::ClipFactor{.squared_norm = a.State({1}, DType::kF32), .out = a.Output({1}, DType::kF32)}; });
  }
  void Step(DType t, int64_t n) {
    const auto master = [=](Operands& a) { return t == DType::kF32 ? Tensor() : a.State({n}, DType::kF32); };
    Add([=](Operands& a) {
      return ops::SgdStep{.param = a.State({n}, t), .grad = a.Input({n}, t), .momentum = a.State({n}, DType::kF32),
                          .master = master(a), .momentum_factor = 0.9};
    });
    Add([=](Operands& a) {
      return ops::AdamStep{.param = a.State({n}, t), .grad = a.Input({n}, t), .m = a.State({n}, DType::kF32),
                           .v = a.State({n}, DType::kF32), .master = master(a)};
    });
  }

  const bool quick_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> Cases(bool quick) {
  List list(quick);
  list.AddAll();
  return list.Take();
}

}  // namespace twofold::calibrate
