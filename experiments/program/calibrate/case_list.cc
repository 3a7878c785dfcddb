#include "experiments/program/calibrate/case_list.h"

#include <algorithm>

namespace twofold::calibrate {
namespace {

// A part of an operation: a function of the arena, called for each measurement.
using Operand = std::function<Tensor(Operands&)>;

Operand In(Shape shape, DType t) {
  return [=](Operands& a) { return a.Input(shape, t); };
}
Operand Out(Shape shape, DType t) {
  return [=](Operands& a) { return a.Output(shape, t); };
}
Operand State(Shape shape, DType t) {
  return [=](Operands& a) { return a.State(shape, t); };
}
Operand Ids(Shape shape) {
  return [=](Operands& a) { return a.Ids(shape); };
}
Operand Tokens(int64_t count, int64_t below) {
  return [=](Operands& a) { return a.Tokens({count}, below); };
}
Operand Places(int64_t k, int64_t n) {
  return [=](Operands& a) { return a.Places(k, n); };
}
Operand None() {
  return [](Operands&) { return Tensor(); };
}
auto Choices(int64_t tokens, int64_t k, int64_t experts) {
  return [=](Operands& a) { return a.Choices(tokens, k, experts); };
}
auto Matrices(Operand tensor, int64_t stride, int64_t batch, int64_t head = 0) {
  return [=](Operands& a) { return ops::Matrices{tensor(a), stride, batch, head}; };
}

}  // namespace

void CaseList::Product(DType t, std::string_view kernel, int64_t m, int64_t n, int64_t k) {
  const bool ta = kernel == "matmul_tn" || kernel == "matmul_tt",
             tb = kernel == "matmul_nt" || kernel == "matmul_tt" || kernel == "matmul_gelu";
  const Operand a = In(ta ? Shape{k, m} : Shape{m, k}, t), b = In(tb ? Shape{n, k} : Shape{k, n}, t);
  const auto add = [&](ops::MatMul::Epilogue epilogue, const Operand& aux) {
    Add<ops::MatMul>(a, b, Out({m, n}, t), None(), ta, tb, false, epilogue, aux);
  };
  if (kernel == "matmul_gelu") return add(ops::MatMul::kGelu, Out({m, n}, t));
  if (kernel == "matmul_gelu_slope") return add(ops::MatMul::kGeluSlope, In({m, n}, t));
  add(ops::MatMul::kNone, None());
}

void CaseList::ProductInFp8(std::string_view kernel, int64_t m, int64_t n, int64_t k) {
  using ops::Fp8Blocks, ops::Fp8Format;
  const bool ta = kernel == "matmul_tn", tb = kernel == "matmul_nt" || kernel == "matmul_gelu";
  const Shape a = ta ? Shape{k, m} : Shape{m, k}, b = tb ? Shape{n, k} : Shape{k, n};
  const auto scaling = [](const Shape& shape, Fp8Format format, Fp8Blocks blocks) {
    return [=](Operands& x) {
      return ops::Fp8Scaling{x.State(ops::Fp8Scales(blocks, shape[0], shape[1]), DType::kF32), format, blocks};
    };
  };
  const Operand aux = kernel == "matmul_gelu"         ? Out({m, n}, DType::kBF16)
                      : kernel == "matmul_gelu_slope" ? In({m, n}, DType::kBF16)
                                                      : None();
  const auto epilogue = kernel == "matmul_gelu"         ? ops::MatMul::kGelu
                        : kernel == "matmul_gelu_slope" ? ops::MatMul::kGeluSlope
                                                        : ops::MatMul::kNone;
  for (const bool blocks : {false, true}) {
    const Fp8Format of_a = blocks || tb ? Fp8Format::kE4M3 : Fp8Format::kE5M2;  // a gradient's, but for forward
    const Fp8Blocks blocks_a = !blocks ? Fp8Blocks::kTensor
                               : ta    ? Fp8Blocks::kColumn
                                       : Fp8Blocks::kRow,
                    blocks_b = !blocks ? Fp8Blocks::kTensor
                               : ta    ? Fp8Blocks::kColumn
                                       : Fp8Blocks::kSquare;
    Add<ops::MatMul>(Ids(a), Ids(b), Out({m, n}, DType::kBF16), None(), ta, tb, false, epilogue, aux,
                     scaling(a, of_a, blocks_a), scaling(b, Fp8Format::kE4M3, blocks_b));
  }
}

void CaseList::RoundToFp8(DType t, int64_t r, int64_t c) {
  for (const auto blocks : {ops::Fp8Blocks::kTensor, ops::Fp8Blocks::kSquare}) {
    Add<ops::QuantiseFp8>(In({r, c}, t), Out({r, c}, DType::kU8), [=](Operands& a) {
      return ops::Fp8Scaling{a.Output(ops::Fp8Scales(blocks, r, c), DType::kF32), ops::Fp8Format::kE4M3, blocks};
    });
  }
}
void CaseList::RoundToFp8InHalves(DType t, int64_t r, int64_t c) {
  const Operand largest = Out({1, 1}, DType::kI32);
  Add<ops::QuantiseFp8>(In({r, c}, t), None(), ops::Fp8Scaling{}, ops::QuantiseFp8::kLargest, largest);
  Add<ops::QuantiseFp8>(
      In({r, c}, t), Out({r, c}, DType::kU8),
      [](Operands& a) {
        return ops::Fp8Scaling{.scales = a.Output(Shape{1, 1}, DType::kF32)};
      },
      ops::QuantiseFp8::kCodes, largest);
}

void CaseList::Attend(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
  const DType wide = ops::AccumulationType(t);
  const Shape qkv{batch, length, 3 * c}, out{batch, length, c}, lse{batch, heads, length};
  Add<ops::AttentionForward>(In(qkv, t), Out(out, t), Out(lse, wide), heads, heads);
  Add<ops::AttentionBackward>(In(qkv, t), In(out, t), In(lse, wide), In(out, t), Out(qkv, t), heads, heads);
}

void CaseList::AttendInRing(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d,
                half = length / 2;
  const DType wide = ops::AccumulationType(t);
  const Shape q{batch, length, 3 * c}, kv{batch, length, 2 * c}, out{batch, length, c}, lse{batch, heads, length};
  const ops::AttentionBlock whole{.heads = heads, .kv_heads = heads, .head_dim = d, .queries = length, .keys = length};
  ops::AttentionBlock diagonal = whole, keys = whole, queries = whole;
  diagonal.causal = true, keys.keys = half, queries.first_query = queries.queries = half;
  for (const ops::AttentionBlock& block : {diagonal, keys, queries}) {
    const bool merge = !block.causal;
    Add<ops::AttentionBlockForward>(In(q, t), In(kv, t), Out(out, wide), Out(lse, wide), block, merge);
    Add<ops::AttentionBlockBackward>(In(q, t), In(kv, t), In(out, t), In(lse, wide), In(out, t), Out(q, wide),
                                     Out(kv, wide), block, merge);
  }
}

void CaseList::AttendUnfused(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
  const Shape wide{batch, length, 3 * c}, square{batch, heads, length, length};
  const auto columns = [=](Operand x) { return Matrices(std::move(x), 3 * c, length * 3 * c, d); };
  const auto scores = [=](Operand x) {
    return Matrices(std::move(x), length, heads * length * length, length * length);
  };
  Add<ops::BatchedMatMul>(columns(In(wide, t)), columns(In(wide, t)), scores(Out(square, t)), batch, heads, length,
                          length, d, false, true);
  for (const bool transpose : {false, true}) {
    Add<ops::BatchedMatMul>(scores(In(square, t)), columns(In(wide, t)), columns(Out(wide, t)), batch, heads, length, d,
                            length, transpose);
  }
  Add<ops::SoftmaxForward>(In(square, t), Out(square, t));
  Add<ops::SoftmaxBackward>(In(square, t), In(square, t), Out(square, t));
}

void CaseList::ByRow(DType t, int64_t r, int64_t c) {
  const DType wide = ops::AccumulationType(t);
  const int64_t length = std::min<int64_t>(r, 64);
  const Shape sequences{r / length, length, c};
  const Operand x = In({r, c}, t), y = Out({r, c}, t), columns = In({c}, t), rows = In({r}, wide);
  const Operand ids = [=](Operands& a) { return a.Tokens({r}, a.vocabulary()); };
  Add<ops::ColumnSum>(x, Out({c}, t));
  Add<ops::AddBias>(x, columns, y);
  Add<ops::EmbeddingForward>(
      ids,
      [=](Operands& a) {
        return a.Input({a.vocabulary(), c}, t);
      },
      y);
  Add<ops::EmbeddingBackward>(ids, x, [=](Operands& a) { return a.Output({a.vocabulary(), c}, t); });
  Add<ops::PositionForward>(In(sequences, t), In({length, c}, t), Out(sequences, t));
  Add<ops::PositionBackward>(In(sequences, t), Out({length, c}, t));
  Add<ops::LayerNormForward>(x, columns, columns, y, Out({r}, wide), Out({r}, wide));
  Add<ops::LayerNormBackward>(x, x, columns, rows, rows, y);
  Add<ops::LayerNormWeights>(x, x, rows, rows, Out({c}, t), Out({c}, t));
  Add<ops::RmsNormForward>(x, columns, y, Out({r}, wide));
  Add<ops::RmsNormBackward>(x, x, columns, rows, y);
  Add<ops::RmsNormWeights>(x, x, rows, Out({c}, t));
  if (2 * r * c <= limits_.elements) {
    Add<ops::SwiGluForward>(In({r, 2 * c}, t), y);
    Add<ops::SwiGluBackward>(In({r, 2 * c}, t), x, Out({r, 2 * c}, t));
  }
  Add<ops::CopyColumns>(x, Out({r, c / 2}, t), c - c / 2, 0, c / 2);
  Add<ops::Rotary>(In(sequences, t), In({length, 32}, wide), Out(sequences, t), c * 2 / 3 / 32);  // two thirds of qkv
}

void CaseList::Losses(DType t, int64_t r, int64_t c) {
  const DType wide = ops::AccumulationType(t);
  const Operand logits = In({r, c}, t), targets = Tokens(r, c), rows = In({r}, wide), out = Out({r}, wide);
  Add<ops::CrossEntropyForward>(logits, targets, out, out);
  Add<ops::CrossEntropyBackward>(logits, targets, rows, Out({r, c}, t));
  Add<ops::CountCorrect>(logits, targets, Out({1}, wide));
  Add<ops::SplitMax>(logits, out, c);
  Add<ops::SplitSums>(logits, targets, rows, Out({2, r}, wide), 0, c);
  Add<ops::SplitBackward>(logits, targets, rows, Out({r, c}, t), 0, c);
}

void CaseList::Route(DType t, int64_t tokens, int64_t experts) {
  const DType wide = ops::AccumulationType(t);
  const Shape all{tokens, experts}, chosen{tokens, 2};
  Add<ops::RouteForward>(In(all, t), Out(all, wide), Out(chosen, wide), Choices(tokens, 2, experts));
  Add<ops::RouteBackward>(State(all, wide), In(chosen, wide), Choices(tokens, 2, experts), Out(all, t), 0.01);
}

void CaseList::Exchange(DType t, int64_t tokens, int64_t c) {
  constexpr int64_t kExperts = 8, kTopK = 2;
  const Shape x{tokens, c}, slots{kExperts, tokens * kTopK / kExperts, c}, weights{tokens, kTopK};
  const DType wide = ops::AccumulationType(t);
  const auto choices = Choices(tokens, kTopK, kExperts);
  Add<ops::Dispatch>(In(x, t), choices, None(), Out(slots, t));
  Add<ops::Combine>(In(slots, t), choices, In(weights, wide), Out(x, t));
  Add<ops::CombineWeights>(In(slots, t), choices, In(x, t), Out(weights, wide));
}

void CaseList::ExpertProducts(DType t, int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kExperts = 8;
  if (2.0 * kExperts * static_cast<double>(rows * in) * static_cast<double>(out) > limits_.flops) return;
  if (kExperts * std::max({in * out, rows * in, rows * out}) > limits_.elements) return;
  const Shape x{kExperts * rows, in}, w{kExperts * out, in}, y{kExperts * rows, out};
  const auto of_each = [=](Operand tensor, const Shape& shape) {
    return Matrices(std::move(tensor), shape[1], shape.numel() / kExperts);
  };
  const auto read = [=](const Shape& shape) { return of_each(In(shape, t), shape); };
  const auto written = [=](const Shape& shape) { return of_each(Out(shape, t), shape); };
  Add<ops::BatchedMatMul>(read(x), read(w), written(y), kExperts, 1, rows, out, in, false, true);
  Add<ops::BatchedMatMul>(read(y), read(w), written(x), kExperts, 1, rows, in, out);
  Add<ops::BatchedMatMul>(read(y), read(x), written(w), kExperts, 1, out, in, rows, true);
}

void CaseList::Element(DType t, int64_t n) {
  const DType other = t == DType::kF32 ? DType::kBF16 : DType::kF32, wide = ops::AccumulationType(t);
  const Operand x = In({n}, t), y = Out({n}, t);
  Add<ops::Fill>(y);
  Add<ops::Cast>(x, Out({n}, other));
  Add<ops::Affine>(Ids({n}), y, 0.5);
  Add<ops::AddRelu>(x, x, y);
  Add<ops::Add>(x, x, y);
  Add<ops::AddTo>(x, y);
  Add<ops::Scale>(y, 0.5);
  Add<ops::Sum>(x, Out({1}, wide));
  Add<ops::SquaredNorm>(x, Out({1}, wide));
  Add<ops::Dropout>(x, y, 0.1, MakeKey(1, "dropout"));
  Add<ops::MaskedDropoutForward>(x, y, Ids({n}), 0.1, MakeKey(1, "dropout"));
  Add<ops::MaskedDropoutBackward>(x, Ids({n}), y, 0.1);
  if (n <= 262144) {  // slow, and needed only once per run
    if (t == DType::kF32 && n >= 64) Add<ops::RotaryTable>(Out({n / 64, 64}, t), std::vector<double>(32, 0.1));
    Add<ops::RandomFill>(ops::RandomFill::kNormal, y, 0.0, 1.0, MakeKey(1, "fill"));
    if (t == wide && n <= limits_.elements / 4) {
      Add<ops::SplitLosses>(x, In({2, n}, t), y, y);
      Add<ops::SplitCorrect>(In({3, n}, t), Out({1}, t));
    }
  }
  for (const auto kind :
       {ops::ActivationForward::kRelu, ops::ActivationForward::kGelu, ops::ActivationForward::kSquaredRelu}) {
    Add<ops::ActivationForward>(kind, x, y);
    Add<ops::ActivationBackward>(kind, x, x, y);
  }
}

void CaseList::Codecs(DType t, int64_t n) {
  const DType wide = ops::AccumulationType(t);
  const int64_t k = n / 100, quantised = (n + 256 - 1) / 256,
                signed_blocks = (n + ops::kSignBlock - 1) / ops::kSignBlock;
  const Operand x = In({n}, t), y = Out({n}, t), codes = Out({n}, DType::kU8), signs = Out({(n + 7) / 8}, DType::kU8);
  Add<ops::TopK>(x, Out({k}, t), Out({k}, DType::kI32), y);
  Add<ops::RandomPlaces>(Out({k}, DType::kI32), n, MakeKey(1, "places"));
  Add<ops::GatherElements>(x, Places(k, n), Out({k}, t));
  Add<ops::ScatterElements>(In({k}, t), Places(k, n), y, true);
  for (const bool stochastic : {false, true})
    Add<ops::Quantise>(x, codes, Out({quantised}, wide), y, stochastic, MakeKey(1, "quantise"));
  Add<ops::Dequantise>(codes, In({quantised}, wide), y);
  Add<ops::Orthogonalise>(Out({(n + 63) / 64 + 4, 4}, wide));
  Add<ops::SignPack>(x, signs, Out({signed_blocks}, wide), y);
  Add<ops::SignUnpack>(signs, In({signed_blocks}, wide), y);
}

void CaseList::Convolve(DType t, const Shape& x, int64_t kernel, int64_t out, int64_t stride) {
  const int64_t side = (x[1] - 1) / stride + 1, padding = kernel / 2;
  const Shape w{kernel, kernel, x[3], out}, y{x[0], side, side, out};
  const double flops = 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w.numel() / out);
  if (flops > limits_.flops / 2 || std::max({x.numel(), y.numel(), w.numel()}) > limits_.elements) return;
  Add<ops::ConvolutionForward>(In(x, t), In(w, t), None(), Out(y, t), stride, padding);
  Add<ops::ConvolutionBackward>(In(y, t), In(w, t), Out(x, t), stride, padding);
  Add<ops::ConvolutionWeights>(In(y, t), In(x, t), Out(w, t), stride, padding);
}

void CaseList::Normalise(DType t, const Shape& shape) {
  const DType wide = ops::AccumulationType(t);
  const int64_t c = shape[-1], rows = shape.numel() / c;
  if (shape.numel() > limits_.elements) return;
  const Operand x = In(shape, t), y = Out(shape, t), gamma = In({c}, t), mean = In({c}, wide), sums = In({2, c}, wide);
  const Operand running = State({c}, wide), finished = Out({c}, wide);
  Add<ops::BatchNormStatistics>(x, Out({2, c}, wide));
  Add<ops::BatchNormFinish>(State({2, c}, wide), running, running, finished, finished, rows);
  for (const bool relu : {false, true}) {
    const Operand mask = relu ? x : None();
    Add<ops::BatchNormForward>(x, gamma, gamma, mean, mean, y, relu);
    Add<ops::BatchNormSums>(x, x, mask, mean, mean, Out({2, c}, wide));
    Add<ops::BatchNormBackward>(x, x, mask, gamma, mean, mean, sums, y, rows);
  }
  Add<ops::AveragePoolForward>(x, Out({shape[0], c}, t));
  Add<ops::AveragePoolBackward>(In({shape[0], c}, t), y);
}

void CaseList::Pool(DType t, const Shape& x) {
  const int64_t side = (x[1] - 1) / 2 + 1;
  const Shape y{x[0], side, side, x[3]};
  Add<ops::MaxPoolForward>(In(x, t), Out(y, t), Ids(y), 3, 2, 1);
  Add<ops::MaxPoolBackward>(
      In(y, t), [=](Operands& a) { return a.Centres(y); }, Out(x, t), 3, 2, 1);
}

void CaseList::Step(DType t, int64_t n) {
  const Operand param = State({n}, t), grad = In({n}, t), wide = State({n}, DType::kF32);
  const Operand master = t == DType::kF32 ? None() : wide;
  Add<ops::SgdStep>(param, grad, wide, master, 0.0, 0.9);
  Add<ops::AdamStep>(param, grad, wide, wide, master);
}

void CaseList::Clip() { Add<ops::ClipFactor>(State({1}, DType::kF32), Out({1}, DType::kF32)); }

}  // namespace twofold::calibrate
