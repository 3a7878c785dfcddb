#include "core/nn/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace twofold::nn {
namespace {

// What each expert would get of the choices if they could be divided; at most `tokens`. Experts that are full leave the
// rest to the others, which may fill more of them.
std::vector<double> Ideal(std::vector<double> shares, int64_t tokens, int64_t top_k) {
  const auto most = static_cast<double>(tokens);
  std::vector<double> ideal(shares.size());
  std::vector<bool> full(shares.size());
  for (double left = most * static_cast<double>(top_k);;) {
    double sum = 0;
    size_t open = 0;
    for (size_t e = 0; e < shares.size(); ++e)
      if (!full[e]) sum += shares[e], ++open;
    if (open == 0) return ideal;
    bool more = false;
    double taken = 0;
    for (size_t e = 0; e < shares.size(); ++e) {
      if (full[e]) continue;
      ideal[e] = sum > 0 ? left * shares[e] / sum : left / static_cast<double>(open);
      if (ideal[e] < most) continue;
      ideal[e] = most, taken += most, full[e] = more = true;
    }
    if (!more) return ideal;
    left = std::max(0.0, left - taken);
  }
}

}  // namespace

std::vector<int64_t> DivideChoices(std::span<const double> shares, int64_t experts, int64_t tokens, int64_t top_k) {
  TWOFOLD_CHECK(top_k >= 1 && top_k <= experts, "a token chooses different experts");
  TWOFOLD_CHECK(shares.empty() || static_cast<int64_t>(shares.size()) == experts, "every expert has a share");
  std::vector<double> own(shares.begin(), shares.end());
  if (own.empty()) own.assign(static_cast<size_t>(experts), 1);
  const std::vector<double> ideal = Ideal(std::move(own), tokens, top_k);
  std::vector<int64_t> counts;
  for (const double x : ideal) counts.push_back(static_cast<int64_t>(std::floor(x)));
  std::vector<size_t> order(ideal.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto fraction = [&](size_t e) { return ideal[e] - static_cast<double>(counts[e]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return fraction(a) > fraction(b); });
  int64_t left = top_k * tokens - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    if (counts[order[i]] >= tokens) continue;
    ++counts[order[i]], --left;
  }
  for (size_t i = order.size(); left < 0;) {  // a quotient was rounded up to a whole number
    i = (i > 0 ? i : order.size()) - 1;
    if (counts[order[i]] > 0) --counts[order[i]], ++left;
  }
  return counts;
}

std::span<const double> AssumedRouting::SharesOf(int64_t block, int64_t rank) const {
  for (const Row& row : rows_)
    if ((row.block < 0 || row.block == block) && (row.rank < 0 || row.rank == rank)) return row.shares;
  return {};
}

bool AssumedRouting::ranks_differ() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.rank >= 0; });
}

std::vector<double> ZipfShares(int64_t experts, double exponent, uint64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> order;
  const PhiloxKey key = MakeKey(seed, "popularity of experts");
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) order.emplace_back(Philox(key, e)[0], e);
  std::sort(order.begin(), order.end());
  std::vector<double> shares(order.size());
  for (size_t i = 0; i < order.size(); ++i) shares[order[i].second] = std::pow(static_cast<double>(i + 1), -exponent);
  return shares;
}

}  // namespace twofold::nn
