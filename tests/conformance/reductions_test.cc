// Reductions, against a plain loop over ranks: in rank order, narrow types in f32 with one rounding.
#include <algorithm>

#include "tests/conformance/fabrics.h"

namespace twofold::conformance {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};

template <class A>
A Combine(ReduceOp op, A a, A b) {
  using U = std::conditional_t<std::is_same_v<A, int32_t>, uint32_t, A>;  // sums wrap
  switch (op) {
    case ReduceOp::kSum: case ReduceOp::kAvg: return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    case ReduceOp::kProduct: return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
  }
  return a;
}

// Element i, over `ranks` ranks.
template <class T>
T Reduced(ReduceOp op, int ranks, int64_t i) {
  using A = std::conditional_t<sizeof(T) == 2, float, T>;
  A value = static_cast<A>(ValueAt<T>(0, i));
  for (int r = 1; r < ranks; ++r) value = Combine(op, value, static_cast<A>(ValueAt<T>(r, i)));
  if (op == ReduceOp::kAvg) value = static_cast<A>(value / static_cast<A>(ranks));
  return static_cast<T>(value);
}
template <class T>
std::vector<T> AllReduced(ReduceOp op, int ranks, int64_t first, int64_t count) {
  std::vector<T> values;
  for (int64_t i = first; i < first + count; ++i) values.push_back(Reduced<T>(op, ranks, i));
  return values;
}

// All operations on small tensors; sums and means alone on large ones.
bool WorthTesting(ReduceOp op, int64_t count) {
  return count <= 10 || op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

class Reductions : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Reductions, testing::ValuesIn(Parameters({1, 2, 3, 4, 7})), ParameterName);

TEST_P(Reductions, AllReduce) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (ReduceOp op : kOps) {
          if (!WorthTesting(op, count)) continue;
          Tensor t = rig.Put(Values<T>(rig.rank(), count));
          rig.world().AllReduce(t, op).Wait();
          rig.ExpectEqual(t, AllReduced<T>(op, rig.size(), 0, count), StrCat("all_reduce ", ReduceOpName(op)));
        }
      }
    });
  });
}

TEST_P(Reductions, ReduceLeavesOthersAlone) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (int root : {0, rig.size() - 1}) {
          Tensor t = rig.Put(Values<T>(rig.rank(), count));
          rig.world().Reduce(t, ReduceOp::kSum, root).Wait();
          const bool at_root = rig.rank() == root;
          rig.ExpectEqual(t, at_root ? AllReduced<T>(ReduceOp::kSum, rig.size(), 0, count) : Values<T>(rig.rank(), count),
                          StrCat("reduce to ", root));
        }
      }
    });
  });
}

TEST_P(Reductions, ReduceScatter) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
          for (bool in_place : {false, true}) {
            const int64_t first = count * rig.rank();
            Tensor in = rig.Put(Values<T>(rig.rank(), count * rig.size()));
            Tensor shard = in_place ? in.Slice(first, count) : rig.Put(std::vector<T>(static_cast<size_t>(count)));
            rig.world().ReduceScatter(shard, in, op).Wait();
            rig.ExpectEqual(shard, AllReduced<T>(op, rig.size(), first, count),
                            StrCat("reduce_scatter ", ReduceOpName(op), in_place ? " in place" : ""));
            if (!in_place) rig.ExpectEqual(in, Values<T>(rig.rank(), count * rig.size()), "input of reduce_scatter");
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace twofold::conformance
