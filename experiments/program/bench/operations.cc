#include "experiments/program/bench/operations.h"

#include <algorithm>

namespace twofold::bench {
namespace {

// Bus bandwidth counts what the busiest link of a rank must carry at least, whatever the algorithm: nccl-tests,
// doc/PERFORMANCE.md, "Bandwidth"; gather, scatter and send/receive as in its src/gather.cu, scatter.cu and
// sendrecv.cu.
double TwiceTheOthers(int n) { return 2.0 * (n - 1) / n; }
double TheOthers(int n) { return static_cast<double>(n - 1) / n; }
double One(int) { return 1; }

using O = Operation;
using C = Communication;
constexpr Operation kOperations[] = {
    // name            kind               in               out              split  reduce rooted out-of in-place
    {"all_reduce", C::kAllReduce, O::kWhole, O::kWhole, false, true, false, false, true, TwiceTheOthers},
    {"all_gather", C::kAllGather, O::kBlock, O::kWhole, true, false, false, true, true, TheOthers},
    {"reduce_scatter", C::kReduceScatter, O::kWhole, O::kBlock, true, true, false, true, true, TheOthers},
    {"broadcast", C::kBroadcast, O::kWhole, O::kWhole, false, false, true, false, true, One},
    {"reduce", C::kReduce, O::kWhole, O::kWhole, false, true, true, false, true, One},
    {"gather", C::kGather, O::kBlock, O::kWholeAtRoot, true, false, true, true, false, TheOthers},
    {"scatter", C::kScatter, O::kWholeAtRoot, O::kBlock, true, false, true, true, false, TheOthers},
    {"all_to_all", C::kAllToAll, O::kWhole, O::kWhole, true, false, false, true, false, TheOthers},
    {"send_recv", C::kBatch, O::kWhole, O::kWhole, false, false, false, true, false, One},
};

}  // namespace

std::span<const Operation> Operations() { return kOperations; }

const Operation* FindOperation(std::string_view name) {
  const auto row =
      std::find_if(std::begin(kOperations), std::end(kOperations), [&](const O& o) { return o.name == name; });
  return row == std::end(kOperations) ? nullptr : row;
}

int64_t BlockCount(const Operation& op, int64_t bytes, DType dtype, int ranks) {
  return bytes / ElementSize(dtype) / (op.split ? ranks : 1);
}

int64_t WholeCount(const Operation& op, int64_t block, int ranks) { return op.split ? block * ranks : block; }

}  // namespace twofold::bench
