// How many of a rank's choices go to each expert of a mixture without capacities (mixture.h).
//
// With data, the router says so. Without (symbolic simulation, emulated device), an assumed distribution stands in for
// it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace twofold::nn {

// Divides top_k * tokens choices among experts in proportion to `shares` (0 or more, some above 0; empty: equal ones).
// A token never chooses an expert twice, so no expert gets more than `tokens`; what exceeds that goes to the others in
// proportion to their shares, or equally if they have none. Whole numbers by largest remainders: rounded down first,
// then one more for the largest fractions, among equals for the first experts. The sum is always top_k * tokens.
std::vector<int64_t> DivideChoices(std::span<const double> shares, int64_t experts, int64_t tokens, int64_t top_k);

// Assumed distributions, by block of the model and by rank.
class AssumedRouting {
 public:
  struct Row {
    int64_t block = -1, rank = -1;  // of the model; in the world. -1: all
    std::vector<double> shares;     // by expert
  };
  AssumedRouting() = default;  // equal shares everywhere
  explicit AssumedRouting(std::vector<Row> rows) : rows_(std::move(rows)) {}
  // Those of the first row that is for this block and rank; empty: equal ones.
  std::span<const double> SharesOf(int64_t block, int64_t rank) const;
  bool ranks_differ() const;  // some rows are for single ranks

 private:
  std::vector<Row> rows_;
};

// Zipf's law: the i-th most popular expert, from 0, has a share in proportion to (i + 1)^-exponent. Which one that is
// is drawn from the seed.
std::vector<double> ZipfShares(int64_t experts, double exponent, uint64_t seed);

// Is told what routers choose.
class RoutingObserver {
 public:
  virtual ~RoutingObserver() = default;
  // In one micro-batch, so many of this rank's choices went to each expert of this block. Not told of validations, nor
  // again when a block is recomputed.
  virtual void Routed(int64_t block, std::span<const int64_t> choices) = 0;
};

// What a mixture without capacities tells its experts (Context::routed).
struct Routed {
  std::span<const int64_t> rows;  // by expert, as the host knows them
  Tensor counts;                  // the same on the device, I32
};

}  // namespace twofold::nn
