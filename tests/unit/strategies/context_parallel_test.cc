// Ring attention and what belongs to it, against attention on one rank.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/strings.h"
#include "core/nn/attention.h"
#include "gtest/gtest.h"
#include "kernels/cpu/convert.h"
#include "strategies/context_parallel/ring_attention.h"
#include "strategies/context_parallel/sequence_shard.h"
#include "tests/unit/nn/symbolic_device.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace context_parallel_test {

using test::ExpectOnRanks;
using test::OnRanks;

// ---- Which tokens ----

TEST(ZigZag, ChunksAreEverybodysOnce) {
  for (int n = 1; n <= 9; ++n) {
    std::set<int64_t> chunks;
    for (int i = 0; i < n; ++i) {
      const auto [first, second] = ZigZag{i, n}.Chunks();
      EXPECT_EQ(first + second, 2 * n - 1);
      chunks.insert({first, second});
    }
    EXPECT_EQ(chunks.size(), static_cast<size_t>(2 * n));
    EXPECT_EQ(*chunks.begin(), 0);
    EXPECT_EQ(*chunks.rbegin(), 2 * n - 1);
  }
}

TEST(ZigZag, PositionsOfRows) {
  const ops::IndexMap map = ZigZag{1, 3}.Positions(4);  // of 12 tokens: chunks 1 and 4 of two
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < 8; ++row) positions.push_back(map.Of(row));
  EXPECT_EQ(positions, (std::vector<int64_t>{2, 3, 8, 9, 2, 3, 8, 9}));
}

// Sample i: tokens 100 i + p and targets 100 i + p + 1, as other types.
class Counting final : public Dataset {
 public:
  int64_t size() const override { return 3; }
  SampleType input() const override { return {Shape{12}, DType::kU8}; }
  SampleType target() const override { return {Shape{12}, DType::kI32}; }
  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    for (size_t p = 0; p < 12; ++p) {
      input[p] = static_cast<std::byte>(100 * index + static_cast<int64_t>(p));
      const auto next = static_cast<int32_t>(100 * index + static_cast<int64_t>(p) + 1);
      std::memcpy(target.data() + 4 * p, &next, 4);
    }
  }
  std::string Describe() const override { return "numbers"; }
};

TEST(SequenceShard, HasItsChunksOfEverySample) {
  const Counting whole;
  const std::unique_ptr<Dataset> shard = MakeSequenceShard(whole, {.rank = 1, .ranks = 3});
  EXPECT_EQ(shard->size(), 3);
  EXPECT_EQ(shard->input().shape, Shape{4});
  EXPECT_EQ(shard->target().shape, Shape{4});
  EXPECT_EQ(shard->Describe(), "chunks 1 and 4 of 6 of numbers");
  std::vector<std::byte> input(4), target(16);
  shard->Read(2, input, target);
  EXPECT_EQ(static_cast<int>(input[0]), 202);
  EXPECT_EQ(static_cast<int>(input[3]), 209);
  int32_t targets[4];
  std::memcpy(targets, target.data(), 16);
  EXPECT_THAT(targets, ::testing::ElementsAre(203, 204, 209, 210));
}

// ---- What is computed where ----

TEST(RingStep, EveryPairOfTokensIsComputedOnceAndOnTheRankOfItsQuery) {
  const nn::Heads heads{.width = 1};
  for (const int n : {1, 2, 3, 4, 7}) {
    const int64_t tokens = 6, t = n * tokens;
    std::vector<int> times(static_cast<size_t>(t * t));
    for (int rank = 0; rank < n; ++rank) {
      for (int step = 0; step < n; ++step) {
        const ops::IndexMap queries = ZigZag{rank, n}.Positions(tokens),
                            keys = ZigZag{(rank - step + n) % n, n}.Positions(tokens);
        const ops::AttentionBlock b = RingStep(heads, {rank, n}, step, tokens);
        for (int64_t i = 0; i < b.queries; ++i) {
          for (int64_t j = 0; j < (b.causal ? i + 1 : b.keys); ++j) {
            ++times[static_cast<size_t>(queries.Of(b.first_query + i) * t + keys.Of(b.first_key + j))];
          }
        }
      }
    }
    for (int64_t q = 0; q < t; ++q) {
      for (int64_t k = 0; k < t; ++k)
        ASSERT_EQ(times[static_cast<size_t>(q * t + k)], k <= q ? 1 : 0) << n << ": " << q << " " << k;
    }
  }
}

TEST(RingStep, EveryRankHasTheSameWorkAtEveryStep) {
  const nn::Heads heads{.queries = 4, .keys = 2, .width = 8};
  test::SymbolicDevice device;
  const auto tensor = [&](Shape shape) { return device.NewTensor(std::move(shape), DType::kF32, Category::kOther); };
  const int64_t batch = 2, t = 48;
  const auto whole = ops::CostOf(ops::AttentionForward{.qkv = tensor({batch, t, 64}),
                                                       .out = tensor({batch, t, 32}),
                                                       .lse = tensor({batch, 4, t}),
                                                       .heads = 4,
                                                       .kv_heads = 2});
  for (const int n : {1, 2, 3, 4, 8}) {
    const int64_t tokens = t / n;
    const Tensor q = tensor({batch, tokens, 64}), kv = tensor({batch, tokens, 32}), out = tensor({batch, tokens, 32}),
                 lse = tensor({batch, 4, tokens});
    for (int rank = 0; rank < n; ++rank) {
      for (int step = 0; step < n; ++step) {
        const ops::AttentionBlock block = RingStep(heads, {rank, n}, step, tokens);
        const ops::AttentionBlockForward forward{q, kv, out, lse, block};
        const ops::AttentionBlockBackward backward{q, kv, out, lse, out, q, kv, block};
        ops::CheckShapes(forward);
        ops::CheckShapes(backward);
        EXPECT_EQ(ops::CostOf(forward).flops.value(), whole.flops.value() / (n * n));
        EXPECT_EQ(ops::CostOf(backward).flops.value(), 2.5 * whole.flops.value() / (n * n));
      }
    }
  }
}

// ---- The layer ----

std::vector<double> Values(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.numel()));
  cpu::Convert(t.raw(), t.dtype(), values.data(), DType::kF64, t.numel());
  return values;
}

Tensor Random(Device& device, Shape shape, DType type, uint64_t seed) {
  Tensor t = device.NewTensor(std::move(shape), type, Category::kActivations);
  std::vector<double> values;
  for (int64_t i = 0; i < t.numel(); ++i) values.push_back(NormalAt(MakeKey(seed, "values"), static_cast<uint64_t>(i)));
  cpu::Convert(values.data(), DType::kF64, t.raw(), type, t.numel());
  return t;
}

// A rank's rows of a whole [b, t, c].
Tensor RowsOf(Device& device, const Tensor& whole, const ZigZag& place) {
  const int64_t tokens = whole.dim(1) / place.ranks, bytes = whole.dim(2) * ElementSize(whole.dtype());
  Tensor part = device.NewTensor(Shape{whole.dim(0), tokens, whole.dim(2)}, whole.dtype(), Category::kActivations);
  const ops::IndexMap positions = place.Positions(tokens);
  for (int64_t row = 0; row < whole.dim(0) * tokens; ++row) {
    std::memcpy(static_cast<char*>(part.raw()) + row * bytes,
                static_cast<char*>(whole.raw()) + (row / tokens * whole.dim(1) + positions.Of(row)) * bytes,
                static_cast<size_t>(bytes));
  }
  return part;
}

struct Problem {
  int64_t batch, t;
  nn::Heads heads;
  DType type;
  bool overlap = true;
  int64_t columns() const { return heads.all() * heads.width; }
  Shape qkv() const { return Shape{batch, t, columns()}; }
  Shape out() const { return Shape{batch, t, heads.queries * heads.width}; }
};

// "" or how far apart they are, as a share of the largest value.
std::string Compare(const Tensor& got, const Tensor& want, double tolerance, std::string_view what) {
  const std::vector<double> g = Values(got), w = Values(want);
  if (g.size() != w.size()) return StrCat(what, ": ", g.size(), " elements, not ", w.size());
  double largest = 0, furthest = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    largest = std::max(largest, std::abs(w[i]));
    furthest = std::isnan(g[i]) ? INFINITY : std::max(furthest, std::abs(g[i] - w[i]));
  }
  return furthest <= tolerance * largest ? "" : StrCat(what, ": off by ", furthest, " of ", largest, "; ");
}

std::string AgainstOneRank(RankContext& rank, const Problem& p, double tolerance) {
  Device& device = rank.device();
  nn::Context ctx{.device = device, .stream = device.compute()};
  const Tensor qkv = Random(device, p.qkv(), p.type, 1), dy = Random(device, p.out(), p.type, 2);
  nn::Saved whole_saved, saved;
  nn::AttentionCore whole(p.heads.queries, p.heads.keys);
  const Tensor whole_out = whole.Forward(ctx, qkv, whole_saved), whole_dqkv = whole.BackwardInput(ctx, dy, whole_saved);

  const ZigZag place{rank.rank(), rank.world_size()};
  RingAttention ring(p.heads, rank.world(), p.overlap);
  const Tensor out = ring.Forward(ctx, RowsOf(device, qkv, place), saved);
  const Tensor dqkv = ring.BackwardInput(ctx, RowsOf(device, dy, place), saved);
  std::string wrong = saved.empty() ? "" : "something is left in saved; ";
  wrong += Compare(out, RowsOf(device, whole_out, place), tolerance, "output");
  return wrong + Compare(dqkv, RowsOf(device, whole_dqkv, place), tolerance, "gradient");
}

TEST(RingAttention, IsAttentionOnOneRank) {
  const auto tolerance = [](DType t) {
    return t == DType::kF64 ? 1e-13 : t == DType::kF32 ? 2e-6 : t == DType::kF16 ? 2e-3 : 1.6e-2;
  };
  for (const int ranks : {1, 2, 3, 4}) {
    for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      for (const nn::Heads& heads : {nn::Heads{1, 1, 5}, nn::Heads{4, 4, 8}, nn::Heads{4, 2, 8}, nn::Heads{6, 1, 3}}) {
        for (const int64_t t : {24, 144}) {
          for (const bool overlap : {true, false}) {
            SCOPED_TRACE(StrCat(ranks, " ranks, ", std::string(DTypeName(type)), ", heads ", heads.queries, "/",
                                heads.keys, ", t ", t));
            const Problem p{.batch = 2, .t = t, .heads = heads, .type = type, .overlap = overlap};
            ExpectOnRanks(ranks, [&](RankContext& rank) { return AgainstOneRank(rank, p, tolerance(type)); });
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

}  // namespace context_parallel_test
}  // namespace twofold
