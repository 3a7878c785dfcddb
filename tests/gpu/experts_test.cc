// Mixtures of experts: routing with ties, more choices than one block of threads counts, slots that are too few or left
// empty.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace experts_test {

class GpuExperts : public GpuTest {};

struct TypeCase {
  DType type;
  double tolerance;
};  // narrow: one rounding
constexpr TypeCase kTypes[] = {{DType::kF64, 1e-12}, {DType::kF32, 2e-6}, {DType::kBF16, 4e-3}, {DType::kF16, 5e-4}};
double Sums(const TypeCase& t) { return t.type == DType::kF64 ? 1e-12 : 2e-6; }  // of outputs that are (f32)

struct Size {
  int64_t tokens, experts, k;
};
constexpr Size kSizes[] = {{1, 1, 1},   {33, 4, 1},   {37, 5, 2}, {9, 33, 3},
                           {700, 8, 2}, {3, 1024, 4}, {5, 4, 4},  {0, 4, 2}};

ops::Choices NewChoices(Operands& a, Size s) {
  return {a.OutOf({s.tokens, s.k}, DType::kI32), a.OutOf({s.tokens, s.k}, DType::kI32)};
}

ops::Op Route(Operands& a, Size s, Tensor logits, bool counts = false) {
  return ops::RouteForward{.logits = logits,
                           .probabilities = a.WideOut({s.tokens, s.experts}),
                           .weights = a.WideOut({s.tokens, s.k}),
                           .choices = NewChoices(a, s),
                           .counts = counts ? a.OutOf({s.experts}, DType::kI32) : Tensor()};
}

TEST_F(GpuExperts, RouteForward) {
  for (const TypeCase& t : kTypes) {
    for (const Size& s : kSizes) {
      for (const bool counts : {false, true}) {
        ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) {
          return Route(a, s, a.Normal({s.tokens, s.experts}, 2), counts);
        });
      }
      // Many equal ones.
      ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) {
        return Route(a, s,
                     a.Values(
                         {s.tokens, s.experts}, [](int64_t i) { return static_cast<double>(i * 7919 % 3); }, t.type));
      });
    }
  }
}

TEST_F(GpuExperts, RouteOfWhatIsNoNumber) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> logits = {std::nan(""), 1, 2,    3,    0,    1,    std::nan(""), 2,
                                      std::nan(""), 3, -inf, -inf, -inf, -inf, -inf};
  ExpectLikeCpu(DType::kF32, 1e-6, [&](Operands& a) {
    return Route(a, {3, 5, 3},
                 a.Values(
                     {3, 5}, [&](int64_t i) { return logits[static_cast<size_t>(i)]; }, DType::kF32));
  });
}

// Choices of different experts a token, numbered in order.
ops::Choices Chosen(Operands& a, Size s) {
  const auto expert = [s](int64_t i) { return (i / s.k * 5 + i % s.k + (i / s.k) % 3) % s.experts; };
  std::vector<double> places;
  std::vector<int64_t> taken(static_cast<size_t>(s.experts), 0);
  for (int64_t i = 0; i < s.tokens * s.k; ++i)
    places.push_back(static_cast<double>(taken[static_cast<size_t>(expert(i))]++));
  return {a.Values(
              {s.tokens, s.k}, [&](int64_t i) { return static_cast<double>(expert(i)); }, DType::kI32),
          a.Values(
              {s.tokens, s.k}, [&](int64_t i) { return places[static_cast<size_t>(i)]; }, DType::kI32)};
}

TEST_F(GpuExperts, RouteBackward) {
  for (const TypeCase& t : kTypes) {
    for (const Size& s : kSizes) {
      for (const double balance : {0.0, 0.5}) {
        ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
          return ops::RouteBackward{.probabilities = a.WideUniform({s.tokens, s.experts}, 0.1, 1),
                                    .dweights = a.WideNormal({s.tokens, s.k}),
                                    .choices = Chosen(a, s),
                                    .dlogits = a.Out({s.tokens, s.experts}),
                                    .balance = balance};
        });
      }
    }
  }
}

struct Exchange {
  Size size;
  int64_t capacity, columns;
};
constexpr Exchange kExchanges[] = {{{33, 4, 1}, 5, 31},   {{37, 5, 2}, 20, 64}, {{9, 4, 3}, 3, 257},
                                   {{130, 8, 2}, 40, 33}, {{3, 2, 2}, 1, 1040}, {{0, 4, 2}, 3, 16}};

template <class F>
void ForExchanges(F run) {
  for (const TypeCase& t : kTypes) {
    for (const Exchange& e : kExchanges) {
      for (const bool weighted : {false, true}) run(t, e, weighted);
    }
  }
}
Tensor Weights(Operands& a, Size s, bool weighted) {
  return weighted ? a.WideUniform({s.tokens, s.k}, 0.1, 1) : Tensor();
}

TEST_F(GpuExperts, Dispatch) {
  ForExchanges([](TypeCase t, Exchange e, bool weighted) {
    ExpectLikeCpu(t.type, weighted ? t.tolerance : 0, [=](Operands& a) -> ops::Op {
      return ops::Dispatch{.x = a.Normal({e.size.tokens, e.columns}),
                           .choices = Chosen(a, e.size),
                           .weights = Weights(a, e.size, weighted),
                           .slots = a.Out({e.size.experts, e.capacity, e.columns})};
    });
  });
}

TEST_F(GpuExperts, Combine) {
  ForExchanges([](TypeCase t, Exchange e, bool weighted) {
    ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
      return ops::Combine{.slots = a.Normal({e.size.experts, e.capacity, e.columns}),
                          .choices = Chosen(a, e.size),
                          .weights = Weights(a, e.size, weighted),
                          .y = a.Out({e.size.tokens, e.columns})};
    });
  });
}

// Rows without capacities, in the order that the places say.
ops::Choices ChosenRows(Operands& a, Size s) {
  const int64_t n = s.tokens * s.k;
  const auto place = [n](int64_t i) { return static_cast<double>((i * 7 + 3) % std::max<int64_t>(n, 1)); };
  return {a.Values({s.tokens, s.k}, place, DType::kI32), a.Values({s.tokens, s.k}, place, DType::kI32)};
}

TEST_F(GpuExperts, RowsThereAndBack) {
  constexpr Size kRows[] = {{33, 4, 1}, {37, 5, 2}, {1, 4, 3}, {0, 4, 2}};  // 7 does not divide their products
  for (const TypeCase& t : kTypes) {
    for (const Size& s : kRows) {
      const int64_t n = s.tokens * s.k, columns = 65;
      ExpectLikeCpu(t.type, 0, [=](Operands& a) -> ops::Op {
        return ops::Dispatch{
            .x = a.Normal({s.tokens, columns}), .choices = ChosenRows(a, s), .slots = a.Out({n, columns})};
      });
      ExpectLikeCpu(t.type, t.tolerance, [=](Operands& a) -> ops::Op {
        return ops::Combine{
            .slots = a.Normal({n, columns}), .choices = ChosenRows(a, s), .y = a.Out({s.tokens, columns})};
      });
      ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
        return ops::CombineWeights{.slots = a.Normal({n, columns}),
                                   .choices = ChosenRows(a, s),
                                   .dy = a.Normal({s.tokens, columns}),
                                   .dweights = a.WideOut({s.tokens, s.k})};
      });
    }
  }
}

TEST_F(GpuExperts, CombineWeights) {
  ForExchanges([](TypeCase t, Exchange e, bool weighted) {
    if (weighted) return;
    ExpectLikeCpu(t.type, Sums(t), [=](Operands& a) -> ops::Op {
      return ops::CombineWeights{.slots = a.Normal({e.size.experts, e.capacity, e.columns}),
                                 .choices = Chosen(a, e.size),
                                 .dy = a.Normal({e.size.tokens, e.columns}),
                                 .dweights = a.WideOut({e.size.tokens, e.size.k})};
    });
  });
}

}  // namespace experts_test
}  // namespace twofold
