// Routing to experts, and rows of tokens on their way to slots and back.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace experts_test {

using Indices = std::vector<int64_t>;

// What the routing rules say, in plain loops.
struct Routing {
  int64_t tokens, experts, k;
  Values p, weights;
  Indices chosen, places;

  Routing(const Values& logits, int64_t experts, int64_t k)
      : tokens(static_cast<int64_t>(logits.size()) / experts), experts(experts), k(k), p(logits.size()) {
    Indices taken(At(experts));
    for (int64_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (int64_t e = 0; e < experts; ++e) sum += std::exp(logits[At(t * experts + e)]);
      for (int64_t e = 0; e < experts; ++e) p[At(t * experts + e)] = std::exp(logits[At(t * experts + e)]) / sum;
      Indices order(At(experts));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return logits[At(t * experts + a)] > logits[At(t * experts + b)]; });
      double of_chosen = 0;
      for (int64_t j = 0; j < k; ++j) of_chosen += p[At(t * experts + order[At(j)])];
      for (int64_t j = 0; j < k; ++j) {
        const int64_t e = order[At(j)];
        chosen.push_back(e);
        places.push_back(taken[At(e)]++);
        weights.push_back(k == 1 ? p[At(t * experts + e)] : p[At(t * experts + e)] / of_chosen);
      }
    }
  }
  int64_t Slot(int64_t choice, int64_t capacity) const {  // -1: dropped
    return places[At(choice)] < capacity ? chosen[At(choice)] * capacity + places[At(choice)] : -1;
  }
  Indices Counts() const {
    Indices counts(At(experts));
    for (const int64_t e : chosen) ++counts[At(e)];
    return counts;
  }
  // The places of rows: those of expert 0 first.
  Indices RowPlaces() const {
    Indices first = Counts(), rows = places;
    std::exclusive_scan(first.begin(), first.end(), first.begin(), int64_t{0});
    for (size_t i = 0; i < rows.size(); ++i) rows[i] += first[At(chosen[i])];
    return rows;
  }
};

Values AsValues(const Indices& indices) { return Values(indices.begin(), indices.end()); }

ops::Choices ChoicesOf(Lab& lab, const Routing& r) {
  return {lab.Of({r.tokens, r.k}, DType::kI32, AsValues(r.chosen)),
          lab.Of({r.tokens, r.k}, DType::kI32, AsValues(r.places))};
}

struct Sizes {
  int64_t tokens, experts, k;
};
constexpr Sizes kSizes[] = {{1, 2, 1}, {7, 4, 2}, {300, 8, 2}, {65, 3, 3}, {40, 64, 6}, {33, 8, 1}, {3, 1024, 8}};

TEST(RouteForward, AgainstPlainLoops) {
  for (DType type : kFloats) {
    for (const Sizes& s : kSizes) {
      Verify("route_forward " + Name(type) + " " + std::to_string(s.experts), [&](Lab& lab) {
        const Tensor logits = lab.Normal({s.tokens, s.experts}, type, 2);
        const Routing want(ValuesOf(logits), s.experts, s.k);
        const Tensor p = lab.Blank(logits.shape(), Wide(type)), weights = lab.Blank({s.tokens, s.k}, Wide(type));
        const ops::Choices choices{lab.Blank({s.tokens, s.k}, DType::kI32), lab.Blank({s.tokens, s.k}, DType::kI32)};
        lab.Run(ops::RouteForward{logits, p, weights, choices});
        EXPECT_EQ(ValuesOf(choices.experts), AsValues(want.chosen));
        EXPECT_EQ(ValuesOf(choices.places), AsValues(want.places));
        return std::vector<Expected>{{p, want.p, 1, type}, {weights, want.weights, 1, type}};
      });
      if (HasFailure()) return;
    }
  }
}

TEST(RouteForward, WithCountsPlacesAreRowsOrderedByExpert) {
  for (const Sizes& s : kSizes) {
    Lab lab(2, 0);
    const Tensor logits = lab.Normal({s.tokens, s.experts}, DType::kF32, 2);
    const Routing want(ValuesOf(logits), s.experts, s.k);
    const Tensor p = lab.Blank(logits.shape(), DType::kF32), weights = lab.Blank({s.tokens, s.k}, DType::kF32);
    const ops::Choices choices{lab.Blank({s.tokens, s.k}, DType::kI32), lab.Blank({s.tokens, s.k}, DType::kI32)};
    const Tensor counts = lab.Blank({s.experts}, DType::kI32);
    lab.Run(ops::RouteForward{logits, p, weights, choices, counts});
    EXPECT_EQ(ValuesOf(choices.experts), AsValues(want.chosen));
    EXPECT_EQ(ValuesOf(choices.places), AsValues(want.RowPlaces()));
    EXPECT_EQ(ValuesOf(counts), AsValues(want.Counts()));
  }
}

TEST(RouteForward, OfEqualsTheFirstAndPlacesInTheOrderOfTokens) {
  Lab lab(1, 0);
  const Tensor logits = lab.Of({3, 4}, DType::kF32, {1, 5, 5, 1, 2, 2, 2, 2, 0, 9, 0, 9});
  const Tensor p = lab.Blank({3, 4}, DType::kF32), weights = lab.Blank({3, 2}, DType::kF32);
  const ops::Choices choices{lab.Blank({3, 2}, DType::kI32), lab.Blank({3, 2}, DType::kI32)};
  lab.Run(ops::RouteForward{logits, p, weights, choices});
  EXPECT_EQ(ValuesOf(choices.experts), (Values{1, 2, 0, 1, 1, 3}));
  EXPECT_EQ(ValuesOf(choices.places), (Values{0, 0, 0, 1, 2, 0}));
  EXPECT_EQ(ValuesOf(weights), (Values{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
}

TEST(RouteForward, LargeLogitsAndNoNumbers) {
  Lab lab(1, 0);
  const Tensor logits = lab.Of({2, 3}, DType::kF32, {-1e4, 1e4, 9e3, NAN, NAN, NAN});
  const Tensor p = lab.Blank({2, 3}, DType::kF32), weights = lab.Blank({2, 2}, DType::kF32);
  const ops::Choices choices{lab.Blank({2, 2}, DType::kI32), lab.Blank({2, 2}, DType::kI32)};
  lab.Run(ops::RouteForward{logits, p, weights, choices});
  EXPECT_EQ(ValuesOf(choices.experts), (Values{1, 2, 0, 1})) << "experts that there are";
  EXPECT_EQ(ValuesOf(weights)[0], 1);
  EXPECT_TRUE(std::isnan(ValuesOf(weights)[2])) << "and what is not finite is seen";
}

// The gradient of <weights, dweights> + balance * E * sum f P by central differences of plain loops, with f and choices
// held.
TEST(RouteBackward, AgainstDifferences) {
  for (DType type : kFloats) {
    for (const Sizes& s : kSizes) {
      for (const double balance : {0.0, 0.7}) {
        if (s.experts > 64) continue;  // slow
        Verify("route_backward " + Name(type) + " " + std::to_string(s.experts), [&](Lab& lab) {
          const Values logits = ValuesOf(lab.Normal({s.tokens, s.experts}, type, 2));
          const Routing r(logits, s.experts, s.k);
          const Tensor dweights = lab.Normal({s.tokens, s.k}, Wide(type)),
                       p = lab.Of({s.tokens, s.experts}, Wide(type), r.p);
          const Tensor dlogits = lab.Blank({s.tokens, s.experts}, type);
          lab.Run(ops::RouteBackward{p, dweights, ChoicesOf(lab, r), dlogits, balance});
          Values f(At(s.experts));
          for (int64_t e : r.chosen) f[At(e)] += 1 / static_cast<double>(s.tokens * s.k);
          const Values d = ValuesOf(dweights);
          const auto loss_of = [&](int64_t t, const Values& row) {
            double all = 0, of_chosen = 0, loss = 0;
            for (double x : row) all += std::exp(x);
            for (int64_t j = 0; j < s.k; ++j) of_chosen += std::exp(row[At(r.chosen[At(t * s.k + j)])]);
            for (int64_t j = 0; j < s.k; ++j)
              loss += d[At(t * s.k + j)] * std::exp(row[At(r.chosen[At(t * s.k + j)])]) / (s.k == 1 ? all : of_chosen);
            for (int64_t e = 0; e < s.experts; ++e)
              loss += balance * static_cast<double>(s.experts) * f[At(e)] * std::exp(row[At(e)]) / all /
                      static_cast<double>(s.tokens);
            return loss;
          };
          Values want;
          for (int64_t t = 0; t < s.tokens; ++t) {
            Values row(logits.begin() + t * s.experts, logits.begin() + (t + 1) * s.experts);
            for (double& x : row) {
              const double kept = x;
              x = kept + 1e-5;
              const double above = loss_of(t, row);
              x = kept - 1e-5;
              want.push_back((above - loss_of(t, row)) / 2e-5);
              x = kept;
            }
          }
          return std::vector<Expected>{
              {dlogits, want, 2, type == DType::kF64 ? DType::kF32 : type}};  // differences are no better
        });
        if (HasFailure()) return;
      }
    }
  }
}

struct Exchange {
  Sizes sizes;
  int64_t capacity, columns;
};
constexpr Exchange kExchanges[] = {{{1, 2, 1}, 1, 1},     {{7, 4, 2}, 3, 5},     {{7, 4, 2}, 7, 5},
                                   {{300, 8, 2}, 60, 33}, {{33, 8, 1}, 2, 1030}, {{65, 3, 3}, 65, 64}};

// Rows without capacities: every choice has one, and its place is the row, whatever `experts` holds.
TEST(Dispatch, ToRowsAndBack) {
  for (const Exchange& x : kExchanges) {
    Lab lab(2, 0);
    const auto [tokens, experts, k] = x.sizes;
    const int64_t c = x.columns, n = tokens * k;
    const Routing r(ValuesOf(lab.Normal({tokens, experts}, DType::kF64)), experts, k);
    const Indices places = r.RowPlaces();
    const ops::Choices choices{lab.Of({tokens, k}, DType::kI32, AsValues(r.chosen)),
                               lab.Of({tokens, k}, DType::kI32, AsValues(places))};
    const Tensor tensor = lab.Normal({tokens, c}, DType::kF32), rows = lab.Blank({n, c}, DType::kF32),
                 back = lab.Normal({n, c}, DType::kF32), y = lab.Blank({tokens, c}, DType::kF32),
                 dweights = lab.Blank({tokens, k}, DType::kF32);
    lab.Run(ops::Dispatch{tensor, choices, {}, rows});
    lab.Run(ops::Combine{back, choices, {}, y});
    lab.Run(ops::CombineWeights{back, choices, tensor, dweights});
    const Values from = ValuesOf(tensor), got = ValuesOf(rows), of = ValuesOf(back), sums = ValuesOf(y),
                 dw = ValuesOf(dweights);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < c; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) {
          const int64_t row = places[At(t * k + j)];
          ASSERT_EQ(got[At(row * c + i)], from[At(t * c + i)]) << t << " " << j;
          sum += of[At(row * c + i)];
        }
        ASSERT_NEAR(sums[At(t * c + i)], sum, 1e-5);
      }
      for (int64_t j = 0; j < k; ++j) {
        double product = 0;
        for (int64_t i = 0; i < c; ++i) product += of[At(places[At(t * k + j)] * c + i)] * from[At(t * c + i)];
        ASSERT_NEAR(dw[At(t * k + j)], product, 1e-3);
      }
    }
  }
}

TEST(Dispatch, AndCombineAndItsWeightsAgainstPlainLoops) {
  for (DType type : kFloats) {
    for (const Exchange& x : kExchanges) {
      Verify("exchange " + Name(type) + " " + std::to_string(x.columns), [&](Lab& lab) {
        const auto [tokens, experts, k] = x.sizes;
        const int64_t c = x.columns, slots = experts * x.capacity;
        const Routing r(ValuesOf(lab.Normal({tokens, experts}, DType::kF64)), experts, k);
        const ops::Choices choices = ChoicesOf(lab, r);
        const Tensor rows = lab.Normal({tokens, c}, type), weights = lab.Positive({tokens, k}, Wide(type));
        const Tensor plain = lab.Blank({experts, x.capacity, c}, type), weighted = lab.Blank(plain.shape(), type);
        lab.Run(ops::Dispatch{rows, choices, {}, plain});
        lab.Run(ops::Dispatch{rows, choices, weights, weighted});
        const Tensor back = lab.Normal({experts, x.capacity, c}, type), y = lab.Blank({tokens, c}, type),
                     sum = lab.Blank({tokens, c}, type);
        const Tensor dweights = lab.Blank({tokens, k}, Wide(type));
        lab.Run(ops::Combine{back, choices, weights, y});
        lab.Run(ops::Combine{back, choices, {}, sum});
        lab.Run(ops::CombineWeights{back, choices, rows, dweights});
        const Values x_of = ValuesOf(rows), w = ValuesOf(weights), from = ValuesOf(back);
        Values plain_want(At(slots * c)), weighted_want(At(slots * c)), y_want(At(tokens * c)),
            sum_want(At(tokens * c)), dw(At(tokens * k));
        for (int64_t choice = 0; choice < tokens * k; ++choice) {
          const int64_t slot = r.Slot(choice, x.capacity), t = choice / k;
          for (int64_t i = 0; slot >= 0 && i < c; ++i) {
            plain_want[At(slot * c + i)] = x_of[At(t * c + i)];
            weighted_want[At(slot * c + i)] = w[At(choice)] * x_of[At(t * c + i)];
            y_want[At(t * c + i)] += w[At(choice)] * from[At(slot * c + i)];
            sum_want[At(t * c + i)] += from[At(slot * c + i)];
            dw[At(choice)] += from[At(slot * c + i)] * x_of[At(t * c + i)];
          }
        }
        return std::vector<Expected>{{plain, plain_want, 0, type},
                                     {weighted, weighted_want, 2, type},
                                     {y, y_want, 8, type},
                                     {sum, sum_want, 8, type},
                                     {dweights, dw, 10 + std::sqrt(static_cast<double>(c)), type}};
      });
      if (HasFailure()) return;
    }
  }
}

}  // namespace experts_test
}  // namespace twofold
