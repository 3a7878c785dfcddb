// Values taken from Open MPI 4.1.4's coll_tuned_decision_fixed.c: thresholds of ranks and bytes.
#include "sim/collectives/open_mpi_decisions.h"

#include <limits>
#include <vector>

namespace twofold::sim {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();

struct Choice {
  int below;  // bytes; kAny: all remaining sizes
  int algorithm;
};
struct Row {
  int ranks_below;
  std::vector<Choice> choices;
};
using Table = std::vector<Row>;

// By the bytes of the tensor.
Table AllReduceTable() {
  return {
      {4, {{8, 4}, {4096, 3}, {8192, 4}, {16384, 3}, {65536, 4}, {262144, 5}, {kAny, 6}}},
      {8, {{16, 4}, {8192, 3}, {kAny, 6}}},
      {16, {{8192, 3}, {kAny, 6}}},
      {32, {{64, 5}, {4096, 3}, {kAny, 6}}},
      {64, {{128, 5}, {kAny, 6}}},
      {128, {{262144, 3}, {kAny, 6}}},
      {256, {{131072, 2}, {262144, 3}, {kAny, 6}}},
      {512, {{4096, 2}, {kAny, 6}}},
      {2048, {{2048, 2}, {16384, 3}, {kAny, 6}}},
      {4096, {{2048, 2}, {4096, 5}, {16384, 3}, {kAny, 6}}},
      {kAny, {{2048, 2}, {16384, 5}, {32768, 3}, {kAny, 6}}},
  };
}
// By the bytes of a block.
Table AllGatherTable() {
  return {
      {3, {{kAny, 6}}},
      {32, {{kAny, 3}}},
      {64, {{1024, 3}, {65536, 5}, {kAny, 4}}},
      {128, {{512, 3}, {65536, 5}, {kAny, 4}}},
      {256, {{512, 3}, {131072, 5}, {524288, 4}, {1048576, 5}, {kAny, 4}}},
      {512, {{32, 3}, {128, 2}, {1024, 3}, {131072, 5}, {524288, 4}, {1048576, 5}, {kAny, 4}}},
      {1024, {{64, 3}, {256, 2}, {2048, 3}, {kAny, 5}}},
      {2048, {{4, 3}, {8, 2}, {16, 3}, {32, 2}, {256, 3}, {512, 2}, {4096, 3}, {kAny, 5}}},
      {4096, {{32, 2}, {128, 3}, {512, 2}, {4096, 3}, {kAny, 5}}},
      {kAny, {{2, 3}, {8, 2}, {16, 3}, {512, 2}, {4096, 3}, {kAny, 5}}},
  };
}
// By the bytes of a block.
Table ReduceScatterTable() {
  return {
      {4, {{4, 2}, {8, 4}, {16, 3}, {128, 4}, {256, 3}, {4096, 4}, {8192, 3}, {131072, 4}, {kAny, 1}}},
      {8, {{8, 3}, {32, 2}, {256, 4}, {8192, 3}, {16384, 4}, {1048576, 3}, {kAny, 1}}},
      {16, {{4, 1}, {32, 3}, {128, 4}, {524288, 3}, {4194304, 1}, {kAny, 4}}},
      {32, {{32, 1}, {524288, 3}, {2097152, 1}, {4194304, 3}, {kAny, 4}}},
      {kAny, {{4, 3}, {16, 1}, {65536, 4}, {262144, 1}, {kAny, 4}}},
  };
}
// By the bytes of a block.
Table AllToAllTable() {
  return {
      {3, {{2, 2}, {4, 5}, {16, 2}, {64, 5}, {256, 2}, {4096, 5}, {32768, 2}, {262144, 4}, {1048576, 5}, {kAny, 2}}},
      {8, {{8192, 4}, {16384, 1}, {65536, 4}, {524288, 1}, {1048576, 2}, {kAny, 1}}},
      {16, {{262144, 4}, {kAny, 1}}},
      {32, {{4, 4}, {512, 3}, {8192, 4}, {32768, 1}, {262144, 4}, {524288, 1}, {kAny, 4}}},
      {64, {{512, 3}, {524288, 1}, {kAny, 4}}},
      {128, {{1024, 3}, {2048, 1}, {4096, 4}, {262144, 1}, {kAny, 2}}},
      {256, {{1024, 3}, {2048, 4}, {262144, 1}, {kAny, 2}}},
      {512, {{1024, 3}, {8192, 4}, {32768, 1}, {kAny, 2}}},
      {1024, {{512, 3}, {8192, 4}, {16384, 1}, {131072, 4}, {262144, 1}, {kAny, 2}}},
      {2048, {{512, 3}, {1024, 4}, {2048, 1}, {16384, 4}, {262144, 1}, {kAny, 4}}},
      {4096, {{1024, 3}, {4096, 4}, {8192, 1}, {131072, 4}, {kAny, 1}}},
      {kAny, {{2048, 3}, {8192, 4}, {16384, 1}, {32768, 4}, {65536, 1}, {kAny, 4}}},
  };
}
// By the bytes of the tensor.
Table BroadcastTable() {
  return {
      {4,
       {{32, 3},
        {256, 5},
        {512, 3},
        {1024, 7},
        {32768, 1},
        {131072, 5},
        {262144, 2},
        {524288, 1},
        {1048576, 6},
        {kAny, 5}}},
      {8, {{64, 5}, {128, 6}, {2048, 5}, {8192, 6}, {1048576, 1}, {kAny, 2}}},
      {16, {{8, 7}, {64, 5}, {4096, 7}, {16384, 5}, {32768, 6}, {kAny, 1}}},
      {32, {{4096, 7}, {1048576, 6}, {kAny, 8}}},
      {64, {{2048, 6}, {kAny, 7}}},
      {128, {{kAny, 7}}},
      {256, {{2, 6}, {16384, 5}, {32768, 1}, {65536, 5}, {kAny, 7}}},
      {1024, {{16384, 7}, {32768, 4}, {kAny, 7}}},
      {2048, {{524288, 7}, {kAny, 8}}},
      {4096, {{262144, 7}, {kAny, 8}}},
      {kAny, {{8192, 7}, {16384, 5}, {262144, 7}, {kAny, 8}}},
  };
}
// By the bytes of the tensor.
Table ReduceTable() {
  return {
      {4, {{8, 7}, {16, 4}, {32, 3}, {262144, 1}, {524288, 3}, {1048576, 2}, {kAny, 3}}},
      {8, {{4096, 4}, {65536, 2}, {262144, 5}, {524288, 1}, {1048576, 5}, {kAny, 1}}},
      {16, {{8192, 4}, {kAny, 5}}},
      {32, {{4096, 4}, {kAny, 5}}},
      {256, {{kAny, 5}}},
      {512, {{8192, 5}, {16384, 6}, {kAny, 5}}},
      {2048, {{kAny, 5}}},
      {4096, {{512, 5}, {1024, 6}, {8192, 5}, {16384, 6}, {kAny, 5}}},
      {kAny, {{16, 5}, {32, 6}, {1024, 5}, {2048, 6}, {8192, 5}, {16384, 6}, {kAny, 5}}},
  };
}
// By the bytes of a block.
Table GatherTable() {
  return {
      {4, {{2, 3}, {4, 1}, {32768, 2}, {65536, 1}, {131072, 2}, {kAny, 3}}},
      {8, {{1024, 2}, {8192, 1}, {32768, 2}, {262144, 1}, {kAny, 3}}},
      {256, {{kAny, 2}}},
      {512, {{2048, 2}, {8192, 1}, {kAny, 2}}},
      {kAny, {{kAny, 2}}},
  };
}
// By the bytes of a block.
Table ScatterTable() {
  return {
      {4, {{2, 3}, {131072, 1}, {262144, 3}, {kAny, 1}}},
      {8, {{2048, 2}, {4096, 1}, {8192, 2}, {32768, 1}, {1048576, 3}, {kAny, 1}}},
      {16, {{16384, 2}, {1048576, 3}, {kAny, 1}}},
      {32, {{16384, 2}, {32768, 1}, {kAny, 3}}},
      {64, {{512, 2}, {8192, 3}, {16384, 2}, {kAny, 3}}},
      {kAny, {{512, 2}, {kAny, 3}}},
  };
}
// Sizes do not matter.
Table BarrierTable() {
  return {
      {4, {{kAny, 3}}},   {8, {{kAny, 1}}},    {64, {{kAny, 3}}},   {256, {{kAny, 4}}},
      {512, {{kAny, 6}}}, {1024, {{kAny, 4}}}, {4096, {{kAny, 6}}}, {kAny, {{kAny, 4}}},
  };
}

int LookUp(const Table& table, int ranks, double bytes) {
  for (const Row& row : table) {
    if (ranks >= row.ranks_below && row.ranks_below != kAny) continue;
    for (const Choice& c : row.choices) {
      if (bytes < c.below || c.below == kAny) return c.algorithm;
    }
  }
  return 1;
}

}  // namespace

int OpenMpiDecision(const CollectiveShape& shape) {
  static const auto* const kTables = new std::vector<std::pair<Communication::Kind, Table>>{
      {Communication::kAllReduce, AllReduceTable()},
      {Communication::kAllGather, AllGatherTable()},
      {Communication::kReduceScatter, ReduceScatterTable()},
      {Communication::kAllToAll, AllToAllTable()},
      {Communication::kBroadcast, BroadcastTable()},
      {Communication::kReduce, ReduceTable()},
      {Communication::kGather, GatherTable()},
      {Communication::kScatter, ScatterTable()},
      {Communication::kBarrier, BarrierTable()},
  };
  using Kind = Communication::Kind;
  const bool whole = shape.kind == Kind::kAllReduce || shape.kind == Kind::kBroadcast || shape.kind == Kind::kReduce;
  for (const auto& [kind, table] : *kTables) {
    if (kind == shape.kind) return LookUp(table, shape.ranks, whole ? shape.bytes : shape.bytes / shape.ranks);
  }
  return 0;  // all_to_all_v: twofold exchanges pairwise itself
}

}  // namespace twofold::sim
