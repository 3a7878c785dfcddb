#include "experiments/program/calibrate/case_list.h"

#include <algorithm>

namespace twofold::calibrate {

void CaseList::Product(DType t, std::string_view kernel, int64_t m, int64_t n, int64_t k) {
  const bool ta = kernel == "matmul_tn" || kernel == "matmul_tt",
             tb = kernel == "matmul_nt" || kernel == "matmul_tt" || kernel == "matmul_gelu";
  const auto epilogue = kernel == "matmul_gelu"         ? ops::MatMul::kGelu
                        : kernel == "matmul_gelu_slope" ? ops::MatMul::kGeluSlope
                                                        : ops::MatMul::kNone;
  Add([=](Operands& arena) {
    ops::MatMul op;
    op.a = arena.Input(ta ? Shape{k, m} : Shape{m, k}, t);
    op.b = arena.Input(tb ? Shape{n, k} : Shape{k, n}, t);
    op.out = arena.Output(Shape{m, n}, t);
    op.transpose_a = ta, op.transpose_b = tb, op.epilogue = epilogue;
    if (epilogue == ops::MatMul::kGelu) op.aux = arena.Output(Shape{m, n}, t);
    if (epilogue == ops::MatMul::kGeluSlope) op.aux = arena.Input(Shape{m, n}, t);
    return op;
  });
}

void CaseList::Attend(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
  Add([=](Operands& arena) {
    return ops::AttentionForward{.qkv = arena.Input({batch, length, 3 * c}, t),
                                 .out = arena.Output({batch, length, c}, t),
                                 .lse = arena.Output({batch, heads, length}, ops::AccumulationType(t)),
                                 .heads = heads,
                                 .kv_heads = heads};
  });
  Add([=](Operands& arena) {
    return ops::AttentionBackward{.qkv = arena.Input({batch, length, 3 * c}, t),
                                  .out = arena.Input({batch, length, c}, t),
                                  .lse = arena.Input({batch, heads, length}, ops::AccumulationType(t)),
                                  .dout = arena.Input({batch, length, c}, t),
                                  .dqkv = arena.Output({batch, length, 3 * c}, t),
                                  .heads = heads,
                                  .kv_heads = heads};
  });
}

void CaseList::AttendInRing(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d,
                half = length / 2;
  const DType wide = ops::AccumulationType(t);
  const ops::AttentionBlock whole{.heads = heads, .kv_heads = heads, .head_dim = d, .queries = length, .keys = length};
  ops::AttentionBlock diagonal = whole, keys = whole, queries = whole;
  diagonal.causal = true, keys.keys = half, queries.first_query = queries.queries = half;
  for (const ops::AttentionBlock& block : {diagonal, keys, queries}) {
    Add([=](Operands& a) {
      return ops::AttentionBlockForward{.q = a.Input({batch, length, 3 * c}, t),
                                        .kv = a.Input({batch, length, 2 * c}, t),
                                        .out = a.Output({batch, length, c}, wide),
                                        .lse = a.Output({batch, heads, length}, wide),
                                        .block = block,
                                        .merge = !block.causal};
    });
    Add([=](Operands& a) {
      return ops::AttentionBlockBackward{.q = a.Input({batch, length, 3 * c}, t),
                                         .kv = a.Input({batch, length, 2 * c}, t),
                                         .out = a.Input({batch, length, c}, t),
                                         .lse = a.Input({batch, heads, length}, wide),
                                         .dout = a.Input({batch, length, c}, t),
                                         .dq = a.Output({batch, length, 3 * c}, wide),
                                         .dkv = a.Output({batch, length, 2 * c}, wide),
                                         .block = block,
                                         .accumulate = !block.causal};
    });
  }
}

void CaseList::AttendUnfused(DType t, int64_t batch_heads, int64_t length, int64_t d) {
  const int64_t heads = std::min<int64_t>(batch_heads, 4), batch = batch_heads / heads, c = heads * d;
  const auto columns = [=](Tensor x) { return ops::Matrices{x, x.dim(2), length * x.dim(2), d}; };
  const auto scores = [=](Tensor x) { return ops::Matrices{x, length, heads * length * length, length * length}; };
  const Shape wide{batch, length, 3 * c}, square{batch, heads, length, length};
  Add([=](Operands& a) {
    return ops::BatchedMatMul{.a = columns(a.Input(wide, t)),
                              .b = columns(a.Input(wide, t)),
                              .out = scores(a.Output(square, t)),
                              .batches = batch,
                              .heads = heads,
                              .m = length,
                              .n = length,
                              .k = d,
                              .transpose_b = true};
  });
  for (const bool transpose : {false, true}) {
    Add([=](Operands& a) {
      return ops::BatchedMatMul{.a = scores(a.Input(square, t)),
                                .b = columns(a.Input(wide, t)),
                                .out = columns(a.Output(wide, t)),
                                .batches = batch,
                                .heads = heads,
                                .m = length,
                                .n = d,
                                .k = length,
                                .transpose_a = transpose};
    });
  }
  Add([=](Operands& a) { return ops::SoftmaxForward{.x = a.Input(square, t), .y = a.Output(square, t)}; });
  Add([=](Operands& a) {
    return ops::SoftmaxBackward{.y = a.Input(square, t), .dy = a.Input(square, t), .dx = a.Output(square, t)};
  });
}

void CaseList::ByRow(DType t, int64_t r, int64_t c) {
  const DType wide = ops::AccumulationType(t);
  Add([=](Operands& a) { return ops::ColumnSum{.in = a.Input({r, c}, t), .out = a.Output({c}, t)}; });
  Add([=](Operands& a) {
    return ops::AddBias{.x = a.Input({r, c}, t), .bias = a.Input({c}, t), .out = a.Output({r, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::EmbeddingForward{
        .ids = a.Tokens({r}, a.vocabulary()), .table = a.Input({a.vocabulary(), c}, t), .out = a.Output({r, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::EmbeddingBackward{
        .ids = a.Tokens({r}, a.vocabulary()), .dy = a.Input({r, c}, t), .dtable = a.Output({a.vocabulary(), c}, t)};
  });
  const int64_t length = std::min<int64_t>(r, 64);
  Add([=](Operands& a) {
    return ops::PositionForward{.x = a.Input({r / length, length, c}, t),
                                .table = a.Input({length, c}, t),
                                .out = a.Output({r / length, length, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::PositionBackward{.dy = a.Input({r / length, length, c}, t), .dtable = a.Output({length, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::LayerNormForward{.x = a.Input({r, c}, t),
                                 .gamma = a.Input({c}, t),
                                 .beta = a.Input({c}, t),
                                 .y = a.Output({r, c}, t),
                                 .mean = a.Output({r}, wide),
                                 .rstd = a.Output({r}, wide)};
  });
  Add([=](Operands& a) {
    return ops::LayerNormBackward{.dy = a.Input({r, c}, t),
                                  .x = a.Input({r, c}, t),
                                  .gamma = a.Input({c}, t),
                                  .mean = a.Input({r}, wide),
                                  .rstd = a.Input({r}, wide),
                                  .dx = a.Output({r, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::LayerNormWeights{.dy = a.Input({r, c}, t),
                                 .x = a.Input({r, c}, t),
                                 .mean = a.Input({r}, wide),
                                 .rstd = a.Input({r}, wide),
                                 .dgamma = a.Output({c}, t),
                                 .dbeta = a.Output({c}, t)};
  });
  Add([=](Operands& a) {
    return ops::RmsNormForward{
        .x = a.Input({r, c}, t), .gamma = a.Input({c}, t), .y = a.Output({r, c}, t), .rstd = a.Output({r}, wide)};
  });
  Add([=](Operands& a) {
    return ops::RmsNormBackward{.dy = a.Input({r, c}, t),
                                .x = a.Input({r, c}, t),
                                .gamma = a.Input({c}, t),
                                .rstd = a.Input({r}, wide),
                                .dx = a.Output({r, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::RmsNormWeights{
        .dy = a.Input({r, c}, t), .x = a.Input({r, c}, t), .rstd = a.Input({r}, wide), .dgamma = a.Output({c}, t)};
  });
  if (2 * r * c <= limits_.elements) {
    Add([=](Operands& a) { return ops::SwiGluForward{.x = a.Input({r, 2 * c}, t), .y = a.Output({r, c}, t)}; });
    Add([=](Operands& a) {
      return ops::SwiGluBackward{.x = a.Input({r, 2 * c}, t), .dy = a.Input({r, c}, t), .dx = a.Output({r, 2 * c}, t)};
    });
  }
  Add([=](Operands& a) {
    return ops::CopyColumns{
        .in = a.Input({r, c}, t), .out = a.Output({r, c / 2}, t), .in_column = c - c / 2, .columns = c / 2};
  });
  Add([=](Operands& a) {  // rotates two thirds of qkv
    return ops::Rotary{.x = a.Input({r / length, length, c}, t),
                       .table = a.Input({length, 32}, wide),
                       .y = a.Output({r / length, length, c}, t),
                       .heads = c * 2 / 3 / 32};
  });
}

void CaseList::Losses(DType t, int64_t r, int64_t c) {
  const DType wide = ops::AccumulationType(t);
  Add([=](Operands& a) {
    return ops::CrossEntropyForward{.logits = a.Input({r, c}, t),
                                    .targets = a.Tokens({r}, c),
                                    .losses = a.Output({r}, wide),
                                    .lse = a.Output({r}, wide)};
  });
  Add([=](Operands& a) {
    return ops::CrossEntropyBackward{.logits = a.Input({r, c}, t),
                                     .targets = a.Tokens({r}, c),
                                     .lse = a.Input({r}, wide),
                                     .dlogits = a.Output({r, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::CountCorrect{.logits = a.Input({r, c}, t), .targets = a.Tokens({r}, c), .out = a.Output({1}, wide)};
  });
  Add([=](Operands& a) {
    return ops::SplitMax{.logits = a.Input({r, c}, t), .largest = a.Output({r}, wide), .classes = c};
  });
  Add([=](Operands& a) {
    return ops::SplitSums{.logits = a.Input({r, c}, t),
                          .targets = a.Tokens({r}, c),
                          .largest = a.Input({r}, wide),
                          .sums = a.Output({2, r}, wide),
                          .classes = c};
  });
  Add([=](Operands& a) {
    return ops::SplitBackward{.logits = a.Input({r, c}, t),
                              .targets = a.Tokens({r}, c),
                              .lse = a.Input({r}, wide),
                              .dlogits = a.Output({r, c}, t),
                              .classes = c};
  });
}

void CaseList::Route(DType t, int64_t tokens, int64_t experts) {
  const DType wide = ops::AccumulationType(t);
  Add([=](Operands& a) {
    return ops::RouteForward{.logits = a.Input({tokens, experts}, t),
                             .probabilities = a.Output({tokens, experts}, wide),
                             .weights = a.Output({tokens, 2}, wide),
                             .choices = a.Choices(tokens, 2, experts)};
  });
  Add([=](Operands& a) {
    return ops::RouteBackward{.probabilities = a.State({tokens, experts}, wide),
                              .dweights = a.Input({tokens, 2}, wide),
                              .choices = a.Choices(tokens, 2, experts),
                              .dlogits = a.Output({tokens, experts}, t),
                              .balance = 0.01};
  });
}

void CaseList::Exchange(DType t, int64_t tokens, int64_t c) {
  constexpr int64_t kExperts = 8, kTopK = 2;
  const Shape slots{kExperts, tokens * kTopK / kExperts, c};
  const DType wide = ops::AccumulationType(t);
  const auto choices = [=](Operands& a) { return a.Choices(tokens, kTopK, kExperts); };
  Add([=](Operands& a) {
    return ops::Dispatch{.x = a.Input({tokens, c}, t), .choices = choices(a), .slots = a.Output(slots, t)};
  });
  Add([=](Operands& a) {
    return ops::Combine{.slots = a.Input(slots, t),
                        .choices = choices(a),
                        .weights = a.Input({tokens, kTopK}, wide),
                        .y = a.Output({tokens, c}, t)};
  });
  Add([=](Operands& a) {
    return ops::CombineWeights{.slots = a.Input(slots, t),
                               .choices = choices(a),
                               .dy = a.Input({tokens, c}, t),
                               .dweights = a.Output({tokens, kTopK}, wide)};
  });
}

void CaseList::ExpertProducts(DType t, int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kExperts = 8;
  if (2.0 * kExperts * static_cast<double>(rows * in) * static_cast<double>(out) > limits_.flops) return;
  if (kExperts * std::max({in * out, rows * in, rows * out}) > limits_.elements) return;
  const auto matrices = [](Tensor x, int64_t r, int64_t c) {
    return ops::Matrices{.tensor = x, .stride = c, .batch = r * c};
  };
  Add([=](Operands& a) {
    return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, in}, t), rows, in),
                              .b = matrices(a.Input({kExperts * out, in}, t), out, in),
                              .out = matrices(a.Output({kExperts * rows, out}, t), rows, out),
                              .batches = kExperts,
                              .m = rows,
                              .n = out,
                              .k = in,
                              .transpose_b = true};
  });
  Add([=](Operands& a) {
    return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, out}, t), rows, out),
                              .b = matrices(a.Input({kExperts * out, in}, t), out, in),
                              .out = matrices(a.Output({kExperts * rows, in}, t), rows, in),
                              .batches = kExperts,
                              .m = rows,
                              .n = in,
                              .k = out};
  });
  Add([=](Operands& a) {
    return ops::BatchedMatMul{.a = matrices(a.Input({kExperts * rows, out}, t), rows, out),
                              .b = matrices(a.Input({kExperts * rows, in}, t), rows, in),
                              .out = matrices(a.Output({kExperts * out, in}, t), out, in),
                              .batches = kExperts,
                              .m = out,
                              .n = in,
                              .k = rows,
                              .transpose_a = true};
  });
}

void CaseList::Element(DType t, int64_t n) {
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
    return ops::MaskedDropoutForward{
        .x = a.Input({n}, t), .y = a.Output({n}, t), .mask = a.Ids({n}), .p = 0.1, .key = MakeKey(1, "dropout")};
  });
  Add([=](Operands& a) {
    return ops::MaskedDropoutBackward{.dy = a.Input({n}, t), .mask = a.Ids({n}), .dx = a.Output({n}, t), .p = 0.1};
  });
  if (n <= 262144) {  // slow, and needed only once per run
    if (t == DType::kF32 && n >= 64) {
      Add([=](Operands& a) {
        return ops::RotaryTable{.table = a.Output({n / 64, 64}, t), .frequencies = std::vector<double>(32, 0.1)};
      });
    }
    Add([=](Operands& a) { return ops::RandomFill{.out = a.Output({n}, t), .key = MakeKey(1, "fill")}; });
    if (t == wide && n <= limits_.elements / 4) {
      Add([=](Operands& a) {
        return ops::SplitLosses{.largest = a.Input({n}, t),
                                .sums = a.Input({2, n}, t),
                                .losses = a.Output({n}, t),
                                .lse = a.Output({n}, t)};
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

void CaseList::Codecs(DType t, int64_t n) {
  const DType wide = ops::AccumulationType(t);
  const int64_t k = n / 100, quantised = (n + 256 - 1) / 256,
                signed_blocks = (n + ops::kSignBlock - 1) / ops::kSignBlock;
  Add([=](Operands& a) {
    return ops::TopK{.in = a.Input({n}, t),
                     .values = a.Output({k}, t),
                     .indices = a.Output({k}, DType::kI32),
                     .residual = a.Output({n}, t)};
  });
  Add([=](Operands& a) {
    return ops::RandomPlaces{.out = a.Output({k}, DType::kI32), .n = n, .key = MakeKey(1, "places")};
  });
  Add([=](Operands& a) {
    return ops::GatherElements{.in = a.Input({n}, t), .indices = a.Places(k, n), .values = a.Output({k}, t)};
  });
  Add([=](Operands& a) {
    return ops::ScatterElements{
        .values = a.Input({k}, t), .indices = a.Places(k, n), .out = a.Output({n}, t), .accumulate = true};
  });
  for (const bool stochastic : {false, true}) {
    Add([=](Operands& a) {
      return ops::Quantise{.in = a.Input({n}, t),
                           .codes = a.Output({n}, DType::kU8),
                           .scales = a.Output({quantised}, wide),
                           .residual = a.Output({n}, t),
                           .stochastic = stochastic,
                           .key = MakeKey(1, "quantise")};
    });
  }
  Add([=](Operands& a) {
    return ops::Dequantise{
        .codes = a.Output({n}, DType::kU8), .scales = a.Input({quantised}, wide), .out = a.Output({n}, t)};
  });
  Add([=](Operands& a) { return ops::Orthogonalise{.x = a.Output({n / 64, 4}, wide)}; });
  Add([=](Operands& a) {
    return ops::SignPack{.in = a.Input({n}, t),
                         .signs = a.Output({(n + 7) / 8}, DType::kU8),
                         .scales = a.Output({signed_blocks}, wide),
                         .residual = a.Output({n}, t)};
  });
  Add([=](Operands& a) {
    return ops::SignUnpack{.signs = a.Output({(n + 7) / 8}, DType::kU8),
                           .scales = a.Input({signed_blocks}, wide),
                           .out = a.Output({n}, t)};
  });
}

void CaseList::Convolve(DType t, const Shape& x, int64_t kernel, int64_t out, int64_t stride) {
  const int64_t side = (x[1] - 1) / stride + 1, padding = kernel / 2;
  const Shape w{kernel, kernel, x[3], out}, y{x[0], side, side, out};
  const double flops = 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w.numel() / out);
  if (flops > limits_.flops / 2 || std::max({x.numel(), y.numel(), w.numel()}) > limits_.elements) return;
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

void CaseList::Normalise(DType t, const Shape& x) {
  const DType wide = ops::AccumulationType(t);
  const int64_t c = x[-1], rows = x.numel() / c;
  if (x.numel() > limits_.elements) return;
  Add([=](Operands& a) { return ops::BatchNormStatistics{.x = a.Input(x, t), .statistics = a.Output({2, c}, wide)}; });
  Add([=](Operands& a) {
    return ops::BatchNormFinish{.parts = a.State({2, c}, wide),
                                .running_mean = a.State({c}, wide),
                                .running_variance = a.State({c}, wide),
                                .mean = a.Output({c}, wide),
                                .rstd = a.Output({c}, wide),
                                .rows = rows};
  });
  for (const bool relu : {false, true}) {
    const auto mask = [=](Operands& a) { return relu ? a.Input(x, t) : Tensor(); };
    Add([=](Operands& a) {
      return ops::BatchNormForward{.x = a.Input(x, t),
                                   .gamma = a.Input({c}, t),
                                   .beta = a.Input({c}, t),
                                   .mean = a.Input({c}, wide),
                                   .rstd = a.Input({c}, wide),
                                   .y = a.Output(x, t),
                                   .relu = relu};
    });
    Add([=](Operands& a) {
      return ops::BatchNormSums{.dy = a.Input(x, t),
                                .x = a.Input(x, t),
                                .y = mask(a),
                                .mean = a.Input({c}, wide),
                                .rstd = a.Input({c}, wide),
                                .sums = a.Output({2, c}, wide)};
    });
    Add([=](Operands& a) {
      return ops::BatchNormBackward{.dy = a.Input(x, t),
                                    .x = a.Input(x, t),
                                    .y = mask(a),
                                    .gamma = a.Input({c}, t),
                                    .mean = a.Input({c}, wide),
                                    .rstd = a.Input({c}, wide),
                                    .sums = a.Input({2, c}, wide),
                                    .dx = a.Output(x, t),
                                    .rows = rows};
    });
  }
  Add([=](Operands& a) { return ops::AveragePoolForward{.x = a.Input(x, t), .y = a.Output({x[0], c}, t)}; });
  Add([=](Operands& a) { return ops::AveragePoolBackward{.dy = a.Input({x[0], c}, t), .dx = a.Output(x, t)}; });
}

void CaseList::Pool(DType t, const Shape& x) {
  const int64_t side = (x[1] - 1) / 2 + 1;
  const Shape y{x[0], side, side, x[3]};
  Add([=](Operands& a) {
    return ops::MaxPoolForward{
        .x = a.Input(x, t), .y = a.Output(y, t), .chosen = a.Ids(y), .size = 3, .stride = 2, .padding = 1};
  });
  Add([=](Operands& a) {
    return ops::MaxPoolBackward{
        .dy = a.Input(y, t), .chosen = a.Centres(y), .dx = a.Output(x, t), .size = 3, .stride = 2, .padding = 1};
  });
}

void CaseList::Step(DType t, int64_t n) {
  const auto master = [=](Operands& a) { return t == DType::kF32 ? Tensor() : a.State({n}, DType::kF32); };
  Add([=](Operands& a) {
    return ops::SgdStep{.param = a.State({n}, t),
                        .grad = a.Input({n}, t),
                        .momentum = a.State({n}, DType::kF32),
                        .master = master(a),
                        .momentum_factor = 0.9};
  });
  Add([=](Operands& a) {
    return ops::AdamStep{.param = a.State({n}, t),
                         .grad = a.Input({n}, t),
                         .m = a.State({n}, DType::kF32),
                         .v = a.State({n}, DType::kF32),
                         .master = master(a)};
  });
}

}  // namespace twofold::calibrate
