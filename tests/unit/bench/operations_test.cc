// The table of operations against nccl-tests' doc/PERFORMANCE.md.
#include "experiments/program/bench/operations.h"

#include "gtest/gtest.h"

namespace twofold::bench {
namespace operations_test {

double Factor(std::string_view name, int ranks) { return FindOperation(name)->bus_factor(ranks); }

TEST(Operations, BusFactors) {
  EXPECT_EQ(Factor("all_reduce", 8), 1.75);
  EXPECT_EQ(Factor("all_reduce", 2), 1);
  for (const char* name : {"all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"}) {
    EXPECT_EQ(Factor(name, 8), 0.875) << name;
    EXPECT_EQ(Factor(name, 1), 0) << name;
  }
  for (const char* name : {"broadcast", "reduce", "send_recv"}) EXPECT_EQ(Factor(name, 8), 1) << name;
}

TEST(Operations, AreFoundByName) {
  EXPECT_EQ(Operations().size(), 9u);
  for (const Operation& op : Operations()) EXPECT_EQ(FindOperation(op.name), &op);
  EXPECT_EQ(FindOperation("all_sing"), nullptr);
  EXPECT_EQ(FindOperation(""), nullptr);
}

TEST(Operations, SizeIsTheLargerSide) {
  const Operation &all_reduce = *FindOperation("all_reduce"), &all_gather = *FindOperation("all_gather");
  EXPECT_EQ(BlockCount(all_reduce, 1024, DType::kF32, 3), 256);
  EXPECT_EQ(WholeCount(all_reduce, 256, 3), 256);
  EXPECT_EQ(BlockCount(all_gather, 1024, DType::kF32, 3), 85);  // 255 of 256 elements
  EXPECT_EQ(WholeCount(all_gather, 85, 3), 255);
  EXPECT_EQ(BlockCount(all_gather, 8, DType::kF32, 3), 0);
  EXPECT_EQ(BlockCount(all_reduce, 7, DType::kF64, 3), 0);
}

}  // namespace operations_test
}  // namespace twofold::bench
