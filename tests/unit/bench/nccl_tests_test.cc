// Bandwidths as nccl-tests has them, computed here from its documents: doc/PERFORMANCE.md says for each collective what
// must move with S bytes in time t, and what of it the busiest link of n ranks carries; gather, scatter and
// send/receive as in its sources.
#include <cmath>

#include "experiments/program/bench/table.h"
#include "gtest/gtest.h"

namespace twofold::bench {
namespace nccl_tests_test {

struct Formula {
  const char* operation;
  // Bytes of the "size" column where every rank brings or gets blocks of `block` bytes ("count" elements).
  double (*size)(double block, int n);
  // busbw = algbw times this.
  double (*bus)(int n);
};
constexpr Formula kFormulas[] = {
    // "AllReduce: B = S/t * (2*(n-1)/n)", S: the whole tensor of a rank
    {"all_reduce", [](double block, int) { return block; }, [](int n) { return 2.0 * (n - 1) / n; }},
    // "ReduceScatter: B = S/t * (n-1)/n", S: what a rank brings, n blocks
    {"reduce_scatter", [](double block, int n) { return block * n; }, [](int n) { return (n - 1.0) / n; }},
    // "AllGather: B = S/t * (n-1)/n", S: what a rank gets, n blocks
    {"all_gather", [](double block, int n) { return block * n; }, [](int n) { return (n - 1.0) / n; }},
    // "Broadcast: B = S/t"; "Reduce: B = S/t"
    {"broadcast", [](double block, int) { return block; }, [](int) { return 1.0; }},
    {"reduce", [](double block, int) { return block; }, [](int) { return 1.0; }},
    // src/alltoall.cu, gather.cu, scatter.cu: baseBw = count * nranks * typesize / t, factor = (nranks - 1) / nranks
    {"all_to_all", [](double block, int n) { return block * n; }, [](int n) { return (n - 1.0) / n; }},
    {"gather", [](double block, int n) { return block * n; }, [](int n) { return (n - 1.0) / n; }},
    {"scatter", [](double block, int n) { return block * n; }, [](int n) { return (n - 1.0) / n; }},
    // src/sendrecv.cu: baseBw = count * typesize / t, factor = 1
    {"send_recv", [](double block, int) { return block; }, [](int) { return 1.0; }},
};

TEST(NcclTests, ArithmeticOfEveryOperation) {
  EXPECT_EQ(std::size(kFormulas), Operations().size());
  for (const Formula& formula : kFormulas) {
    const Operation* op = FindOperation(formula.operation);
    ASSERT_NE(op, nullptr) << formula.operation;
    for (const int n : {2, 3, 4, 8, 72}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
        for (const double seconds : {2.5e-6, 1e-3}) {
          const int64_t block = 12345;
          Bench bench;
          bench.request.operation = op;
          bench.request.dtype = dtype;
          bench.ranks = n;
          const Row row{.bytes = WholeCount(*op, block, n) * ElementSize(dtype), .block = block};
          const double size = formula.size(static_cast<double>(block * ElementSize(dtype)), n);
          EXPECT_EQ(static_cast<double>(row.bytes), size) << formula.operation << " of " << n;
          EXPECT_DOUBLE_EQ(AlgorithmBandwidth(row, {seconds}).value(), size / seconds * 1e-9) << formula.operation;
          EXPECT_NEAR(BusBandwidth(bench, row, {seconds}).value() / (size / seconds * 1e-9 * formula.bus(n)), 1, 1e-12)
              << formula.operation << " of " << n;
        }
      }
    }
  }
}

// The example of its README ("-b 8 -e 128M -f 2 -g <ngpus>") goes over sizes, not blocks: a size that n does not divide
// is rounded down to whole blocks, as there.
TEST(NcclTests, SizesAreWholeBlocks) {
  for (const Formula& formula : kFormulas) {
    const Operation& op = *FindOperation(formula.operation);
    for (const int n : {3, 4}) {
      const int64_t block = BlockCount(op, 1 << 20, DType::kF32, n), size = WholeCount(op, block, n) * 4;
      EXPECT_LE(size, 1 << 20) << formula.operation;
      EXPECT_GT(size, (1 << 20) - 4 * n) << formula.operation;
      EXPECT_EQ(static_cast<double>(size), formula.size(static_cast<double>(block) * 4, n)) << formula.operation;
    }
  }
}

}  // namespace nccl_tests_test
}  // namespace twofold::bench
