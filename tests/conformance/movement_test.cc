// Collectives that move data and change none.
#include <numeric>

#include "tests/conformance/fabrics.h"

namespace twofold::conformance {
namespace {

// The values of all ranks, one after the other.
template <class T>
std::vector<T> Gathered(int ranks, int64_t count) {
  std::vector<T> all;
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> values = Values<T>(r, count);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}
template <class T>
std::vector<T> Part(const std::vector<T>& values, int64_t first, int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}
template <class T>
std::vector<T> Blank(int64_t count) { return std::vector<T>(static_cast<size_t>(count)); }

class Movement : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Movement, testing::ValuesIn(Parameters({1, 2, 3, 4, 7})), ParameterName);

TEST_P(Movement, AllGather) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (bool in_place : {false, true}) {
          Tensor out = rig.Put(Blank<T>(count * rig.size()));
          Tensor shard = in_place ? out.Slice(count * rig.rank(), count) : rig.Put(Blank<T>(count));
          rig.Fill(shard, Values<T>(rig.rank(), count));
          rig.world().AllGather(out, shard).Wait();
          rig.ExpectEqual(out, Gathered<T>(rig.size(), count), in_place ? "all_gather in place" : "all_gather");
        }
      }
    });
  });
}

TEST_P(Movement, Broadcast) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (int root = 0; root < rig.size(); ++root) {
          Tensor t = rig.Put(Values<T>(rig.rank(), count));
          rig.world().Broadcast(t, root).Wait();
          rig.ExpectEqual(t, Values<T>(root, count), StrCat("broadcast from ", root));
        }
      }
    });
  });
}

TEST_P(Movement, GatherAndScatter) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        for (int root : {0, rig.size() - 1}) {
          const bool at_root = rig.rank() == root;
          const std::vector<T> own = Values<T>(rig.rank(), count), all = Gathered<T>(rig.size(), count);
          const Tensor shard = rig.Put(own);
          Tensor out = at_root ? rig.Put(Blank<T>(count * rig.size())) : Tensor();
          rig.world().Gather(out, shard, root).Wait();
          if (at_root) rig.ExpectEqual(out, all, StrCat("gather to ", root));
          Tensor back = rig.Put(Blank<T>(count));
          rig.world().Scatter(back, out, root).Wait();
          rig.ExpectEqual(back, own, StrCat("scatter from ", root));
        }
      }
    });
  });
}

TEST_P(Movement, AllToAll) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        const Tensor in = rig.Put(Values<T>(rig.rank(), count * rig.size()));
        Tensor out = rig.Put(Blank<T>(count * rig.size()));
        rig.world().AllToAll(out, in).Wait();
        std::vector<T> expected;
        for (int r = 0; r < rig.size(); ++r) {
          const std::vector<T> block = Part(Values<T>(r, count * rig.size()), count * rig.rank(), count);
          expected.insert(expected.end(), block.begin(), block.end());
        }
        rig.ExpectEqual(out, expected, "all_to_all");
      }
    });
  });
}

TEST_P(Movement, AllToAllV) {
  OnEveryRank([](Rig& rig) {
    const int n = rig.size(), me = rig.rank();
    for (int64_t scale : {0, 1, 5003}) {
      auto count = [&](int from, int to) { return scale * ((from + 2 * to) % 3); };  // some of them zero
      std::vector<int64_t> in_counts, out_counts;
      std::vector<float> expected;
      for (int r = 0; r < n; ++r) {
        in_counts.push_back(count(me, r));
        out_counts.push_back(count(r, me));
        int64_t first = 0;
        for (int to = 0; to < me; ++to) first += count(r, to);
        const std::vector<float> block = Part(Values<float>(r, first + count(r, me)), first, count(r, me));
        expected.insert(expected.end(), block.begin(), block.end());
      }
      const Tensor in = rig.Put(Values<float>(me, std::accumulate(in_counts.begin(), in_counts.end(), int64_t{0})));
      Tensor out = rig.Put(Blank<float>(static_cast<int64_t>(expected.size())));
      rig.world().AllToAllV(out, out_counts, in, in_counts).Wait();
      rig.ExpectEqual(out, expected, StrCat("all_to_all_v times ", scale));
    }
  });
}

}  // namespace
}  // namespace twofold::conformance
