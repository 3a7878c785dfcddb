// Fits the constants of kernel laws (sim/cost/laws) to tables of measured times, with the laws' own code.
//
// A fifth of the shapes is left out of every fit: those whose FNV-1a hash (64 bits) of the dimensions, written as
// "m,n,k", is a multiple of 5. Of the others, at most kMostRows take part, by order of their hashes.
//
// The fit changes one constant at a time by a factor, within limits that follow from the data sheet (no rate exceeds
// the peak by more than a boosted clock, no bandwidth exceeds the memory's), for as long as the mean of |log(predicted
// / measured)| falls. Errors count up to kMostLawError only, and shapes that training rarely has (a dimension of a
// product below 512, sequences below 512) count less. The result depends on nothing else, so it is the same every time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/cluster.pb.h"
#include "sim/cost/laws/attention_law.h"
#include "sim/cost/laws/product_law.h"

namespace twofold::calibrate {

inline constexpr size_t kMostRows = 1500;
inline constexpr double kMostLawError = 0.4;

struct MeasuredProduct {
  ProductShape shape;
  double us;
};
struct MeasuredAttention {
  AttentionCall call;
  double us;
};

bool IsLeftOut(const ProductShape& shape);
bool IsLeftOut(const AttentionCall& call);

// `device`: memory's bandwidth, peaks and laws.multiprocessors and generation count. `dtype`: as in ProductLaw. At
// least one row is not left out.
cluster::ProductLaw FitProductLaw(const cluster::Device& device, const std::string& dtype,
                                  const std::vector<MeasuredProduct>& rows);
cluster::AttentionLaw FitAttentionLaw(const cluster::Device& device, const std::vector<MeasuredAttention>& rows);

// Errors |predicted / measured - 1| by region, over the rows that were left out. A region of fewer than 10 rows is not
// listed; the one before it holds there.
std::vector<cluster::Residuals> ResidualsOf(const cluster::KernelLaws& laws, const cluster::ProductLaw& law,
                                            const std::vector<MeasuredProduct>& rows);
std::vector<cluster::Residuals> ResidualsOf(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law,
                                            const std::vector<MeasuredAttention>& rows);

// Of the rows that training has: products of m, n, k >= 512; sequences of 512 tokens or more.
cluster::Residuals LargeResiduals(const cluster::KernelLaws& laws, const cluster::ProductLaw& law,
                                  const std::vector<MeasuredProduct>& rows);
cluster::Residuals LargeResiduals(const cluster::KernelLaws& laws, const cluster::AttentionLaw& law,
                                  const std::vector<MeasuredAttention>& rows);

}  // namespace twofold::calibrate
