// Pairwise testing: a few rows of choices instead of all combinations. Any two compatible choices occur together in at
// least one row. So failures caused by one option, or by a pair of options, are found as with the full product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace twofold::test {

using Row = std::vector<int>;     // by factor: the index of its choice
inline constexpr int kOpen = -1;  // not chosen yet

struct Factors {
  std::vector<int> choices;  // number of choices of each factor; choice 0 is the default
  // For a row with open factors: false if the choices so far contradict each other.
  std::function<bool(const Row&)> fits;
};

// Chooses for all open factors, preferring choice 0. False: there is no valid completion.
inline bool Complete(const Factors& f, Row& row, size_t from = 0) {
  if (from == 0 && !f.fits(row)) return false;
  while (from < row.size() && row[from] != kOpen) ++from;
  if (from == row.size()) return true;
  for (row[from] = 0; row[from] < f.choices[from]; ++row[from]) {
    if (f.fits(row) && Complete(f, row, from + 1)) return true;
  }
  row[from] = kOpen;
  return false;
}

// A choice for each of two factors.
struct ChoicePair {
  size_t first, second;
  int a, b;
  friend bool operator==(const ChoicePair&, const ChoicePair&) = default;
  bool In(const Row& row) const { return row[first] == a && row[second] == b; }
};

// All pairs that occur in some valid row.
inline std::vector<ChoicePair> PairsThatFit(const Factors& f) {
  std::vector<ChoicePair> pairs;
  for (size_t first = 0; first < f.choices.size(); ++first) {
    for (size_t second = first + 1; second < f.choices.size(); ++second) {
      for (int a = 0; a < f.choices[first]; ++a) {
        for (int b = 0; b < f.choices[second]; ++b) {
          Row row(f.choices.size(), kOpen);
          row[first] = a, row[second] = b;
          if (Complete(f, row)) pairs.push_back({first, second, a, b});
        }
      }
    }
  }
  return pairs;
}

// Greedy, after Cohen et al. 1997 (AETG): each row begins with a pair that is not yet covered, then takes for one
// factor after the other the choice that covers most further pairs. Of a few orders of factors, the best row is kept.
// The same factors give the same rows.
inline std::vector<Row> PairwiseRows(const Factors& f) {
  constexpr size_t kOrders = 6;
  const size_t n = f.choices.size();
  std::vector<ChoicePair> missing = PairsThatFit(f);
  const auto gained = [&](const Row& row, size_t factor) {  // new pairs covered by the row's choice for `factor`
    int count = 0;
    for (const ChoicePair& p : missing) count += (p.first == factor || p.second == factor) && p.In(row);
    return count;
  };
  const auto grown = [&](size_t order) {
    const ChoicePair& start = missing.front();
    Row row(n, kOpen);
    row[start.first] = start.a, row[start.second] = start.b;
    for (size_t i = 0; i < n; ++i) {
      // forwards or backwards from some start
      const size_t factor = (i * (order % 2 == 0 ? 1 : n - 1) + order * n / kOrders) % n;
      if (row[factor] != kOpen) continue;
      int best = kOpen, most = -1;
      for (row[factor] = 0; row[factor] < f.choices[factor]; ++row[factor]) {
        const int gain = gained(row, factor);
        if (Row whole = row; gain > most && Complete(f, whole)) best = row[factor], most = gain;
      }
      row[factor] = best;
    }
    return row;
  };
  std::vector<Row> rows;
  while (!missing.empty()) {
    Row best;
    int64_t most = -1;
    for (size_t order = 0; order < kOrders; ++order) {
      Row row = grown(order);
      const int64_t gain =
          std::count_if(missing.begin(), missing.end(), [&](const ChoicePair& p) { return p.In(row); });
      if (gain > most) most = gain, best = std::move(row);
    }
    std::erase_if(missing, [&](const ChoicePair& p) { return p.In(best); });
    rows.push_back(std::move(best));
  }
  return rows;
}

// Every valid combination of the choices of `varied` factors, with the other factors as in `base`.
inline std::vector<Row> ProductRows(const Factors& f, const Row& base, const std::vector<size_t>& varied) {
  std::vector<Row> rows = {base};
  for (const size_t factor : varied) {
    std::vector<Row> longer;
    for (Row row : rows) {
      for (row[factor] = 0; row[factor] < f.choices[factor]; ++row[factor]) longer.push_back(row);
    }
    rows = std::move(longer);
  }
  std::erase_if(rows, [&](const Row& row) { return !f.fits(row); });
  return rows;
}

}  // namespace twofold::test
