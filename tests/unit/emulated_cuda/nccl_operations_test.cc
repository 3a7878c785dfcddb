// What operations of the emulated NCCL compute, and where.
#include <cmath>
#include <numeric>
#include <vector>

#include "core/tensor/dtype.h"
#include "tests/unit/emulated_cuda/nccl_ranks.h"

namespace twofold::emulated_test {
namespace nccl_operations_test {

constexpr size_t kCounts[] = {1, 5, 1000, 300000};  // the last takes several rounds

float Value(int rank, size_t i) { return static_cast<float>(rank * 1000 + static_cast<int>(i % 997)); }

std::vector<float> Values(int rank, size_t count, size_t first = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Value(rank, first + i);
  return values;
}
std::vector<float> Sums(int size, size_t count, size_t first = 0) {
  std::vector<float> sums(count, 0);
  for (int r = 0; r < size; ++r) {
    for (size_t i = 0; i < count; ++i) sums[i] += Value(r, first + i);
  }
  return sums;
}

class NcclOperations : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { EXPECT_EQ(emulated::NcclReports(), reports_before_); }

 private:
  const int reports_before_ = emulated::NcclReports();
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclOperations, ::testing::Values(1, 2, 3, 4));

TEST_P(NcclOperations, AllReduce) {
  OnRanks(GetParam(), [](NcclRank& r) {
    for (const size_t count : kCounts) {
      OnGpu<float> from(Values(r.rank, count), r.stream), to(count, -1);
      ASSERT_EQ(ncclAllReduce(from.get(), to.get(), count, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(to.Download(r.stream), Sums(r.size, count));
      ASSERT_EQ(ncclAllReduce(from.get(), from.get(), count, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
      EXPECT_EQ(from.Download(r.stream), Sums(r.size, count)) << "in place";
    }
  });
}

TEST_P(NcclOperations, ReduceAndBroadcast) {
  OnRanks(GetParam(), [](NcclRank& r) {
    const int root = r.size - 1;
    for (const size_t count : kCounts) {
      OnGpu<float> from(Values(r.rank, count), r.stream), to(count, -1);
      float* const reduced = r.rank == root ? to.get() : nullptr;
      ASSERT_EQ(ncclReduce(from.get(), reduced, count, ncclFloat32, ncclSum, root, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(to.Download(r.stream), r.rank == root ? Sums(r.size, count) : std::vector<float>(count, -1));
      ASSERT_EQ(ncclBroadcast(reduced, to.get(), count, ncclFloat32, root, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(to.Download(r.stream), Sums(r.size, count));
    }
  });
}

TEST_P(NcclOperations, AlltoAll) {
  OnRanks(GetParam(), [](NcclRank& r) {
    const auto size = static_cast<size_t>(r.size), rank = static_cast<size_t>(r.rank);
    for (const size_t count : kCounts) {
      OnGpu<float> from(Values(r.rank, size * count), r.stream), to(size * count, -1);
      ASSERT_EQ(ncclAlltoAll(from.get(), to.get(), count, ncclFloat32, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      std::vector<float> wanted;
      for (int sender = 0; sender < r.size; ++sender) {
        const std::vector<float> part = Values(sender, count, rank * count);
        wanted.insert(wanted.end(), part.begin(), part.end());
      }
      EXPECT_EQ(to.Download(r.stream), wanted);
    }
  });
}

TEST_P(NcclOperations, AllGatherAndReduceScatter) {
  OnRanks(GetParam(), [](NcclRank& r) {
    const auto size = static_cast<size_t>(r.size), rank = static_cast<size_t>(r.rank);
    for (const size_t count : kCounts) {
      OnGpu<float> from(Values(r.rank, count), r.stream), all(size * count, -1);
      std::vector<float> expected;
      for (int other = 0; other < r.size; ++other) {
        const std::vector<float> of_other = Values(other, count);
        expected.insert(expected.end(), of_other.begin(), of_other.end());
      }
      ASSERT_EQ(ncclAllGather(from.get(), all.get(), count, ncclFloat32, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(all.Download(r.stream), expected);
      ASSERT_EQ(ncclAllGather(all.get() + rank * count, all.get(), count, ncclFloat32, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(all.Download(r.stream), expected) << "in place";

      OnGpu<float> parts(Values(r.rank, size * count), r.stream);
      ASSERT_EQ(ncclReduceScatter(parts.get(), from.get(), count, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(from.Download(r.stream), Sums(r.size, count, rank * count));
      ASSERT_EQ(
          ncclReduceScatter(parts.get(), parts.get() + rank * count, count, ncclFloat32, ncclSum, r.comm, r.stream),
          ncclSuccess);
      const std::vector<float> after = parts.Download(r.stream);
      EXPECT_EQ(std::vector(after.begin() + static_cast<int64_t>(rank * count),
                            after.begin() + static_cast<int64_t>((rank + 1) * count)),
                Sums(r.size, count, rank * count));
    }
  });
}

TEST_P(NcclOperations, MessagesInAGroup) {
  OnRanks(GetParam(), [](NcclRank& r) {
    const int next = (r.rank + 1) % r.size, before = (r.rank + r.size - 1) % r.size;
    for (const size_t count : kCounts) {
      OnGpu<float> from(Values(r.rank, count), r.stream), more(Values(r.rank + 10, count), r.stream), to(count, -1),
          to_more(count, -1);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclSend(from.get(), count, ncclFloat32, next, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(ncclSend(more.get(), count, ncclFloat32, next, r.comm, r.stream), ncclSuccess);
      EXPECT_EQ(ncclRecv(to.get(), count, ncclFloat32, before, r.comm, r.stream), ncclSuccess)
          << ncclGetLastError(r.comm);
      EXPECT_EQ(ncclRecv(to_more.get(), count, ncclFloat32, before, r.comm, r.stream), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(r.comm);
      EXPECT_EQ(to.Download(r.stream), Values(before, count));
      EXPECT_EQ(to_more.Download(r.stream), Values(before + 10, count)) << "those of a pair go in order";
    }
  });
}

TEST_P(NcclOperations, CollectivesAndMessagesInAGroupGoAtOnce) {
  OnRanks(GetParam(), [](NcclRank& r) {
    const int next = (r.rank + 1) % r.size, before = (r.rank + r.size - 1) % r.size;
    OnGpu<float> a(Values(r.rank, 100), r.stream), b(Values(r.rank, 200), r.stream), to(100, -1),
        c(Values(r.rank, 100), r.stream);
    ncclGroupStart();
    ncclSend(c.get(), 100, ncclFloat32, next, r.comm, r.stream);
    ncclAllReduce(a.get(), a.get(), 100, ncclFloat32, ncclSum, r.comm, r.stream);
    ncclRecv(to.get(), 100, ncclFloat32, before, r.comm, r.stream);
    ncclAllReduce(b.get(), b.get(), 200, ncclFloat32, ncclSum, r.comm, r.stream);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(r.comm);
    EXPECT_EQ(a.Download(r.stream), Sums(r.size, 100));
    EXPECT_EQ(b.Download(r.stream), Sums(r.size, 200));
    EXPECT_EQ(to.Download(r.stream), Values(before, 100));
  });
}

// ---- Types and reductions ----

template <class T>
std::vector<T> AllReduced(NcclRank& r, std::vector<T> values, ncclDataType_t type, ncclRedOp_t op) {
  OnGpu<T> on_gpu(values, r.stream);
  EXPECT_EQ(ncclAllReduce(on_gpu.get(), on_gpu.get(), values.size(), type, op, r.comm, r.stream), ncclSuccess)
      << ncclGetLastError(r.comm);
  return on_gpu.Download(r.stream);
}

TEST(NcclReductions, OfIntegers) {
  OnRanks(3, [](NcclRank& r) {
    const int x = r.rank + 2;  // 2, 3, 4
    EXPECT_EQ(AllReduced<int32_t>(r, {x}, ncclInt32, ncclSum)[0], 9);
    EXPECT_EQ(AllReduced<int64_t>(r, {-x}, ncclInt64, ncclProd)[0], -24);
    EXPECT_EQ(AllReduced<uint8_t>(r, {static_cast<uint8_t>(100 * x)}, ncclUint8, ncclSum)[0], (200 + 300 + 400) & 0xff)
        << "it wraps";
    EXPECT_EQ(AllReduced<int8_t>(r, {static_cast<int8_t>(-x)}, ncclInt8, ncclMax)[0], -2);
    EXPECT_EQ(AllReduced<uint64_t>(r, {static_cast<uint64_t>(x)}, ncclUint64, ncclMin)[0], 2u);
    EXPECT_EQ(AllReduced<uint32_t>(r, {static_cast<uint32_t>(x + 1)}, ncclUint32, ncclAvg)[0], 4u);
  });
}

TEST(NcclReductions, OfFloats) {
  OnRanks(4, [](NcclRank& r) {
    const float x = static_cast<float>(r.rank) - 1.5f;
    EXPECT_EQ(AllReduced<float>(r, {x}, ncclFloat32, ncclMax)[0], 1.5f);
    EXPECT_EQ(AllReduced<float>(r, {x}, ncclFloat32, ncclMin)[0], -1.5f);
    EXPECT_EQ(AllReduced<float>(r, {x}, ncclFloat32, ncclProd)[0], 1.5f * 0.5f * 0.5f * 1.5f);
    EXPECT_EQ(AllReduced<double>(r, {x + 2.0}, ncclFloat64, ncclAvg)[0], 2.0);
    EXPECT_EQ(static_cast<float>(AllReduced<BF16>(r, {BF16(x)}, ncclBfloat16, ncclMax)[0]), 1.5f);
    EXPECT_EQ(static_cast<float>(AllReduced<F16>(r, {F16(x + 2)}, ncclFloat16, ncclSum)[0]), 8.0f);
  });
}

// 256 + 1 is 256 in bf16 (8 bits), 1 + 1 + 1 + 256 is 260 (258 and 259 are not there): each block starts at another
// rank.
TEST(NcclReductions, RoundAtEveryRankOfTheRing) {
  OnRanks(4, [](NcclRank& r) {
    const BF16 mine(r.rank == 0 ? 256.0f : 1.0f);
    const std::vector<BF16> sums = AllReduced(r, std::vector<BF16>(8, mine), ncclBfloat16, ncclSum);
    std::vector<float> blocks;
    for (size_t i = 0; i < 8; i += 2) {
      EXPECT_EQ(sums[i].bits, sums[i + 1].bits);
      blocks.push_back(static_cast<float>(sums[i]));
    }
    // Block 0: 1, 2, 3, 0. Block 1: 2, 3, 0, 1: 2 + 256 = 258, + 1 = 259 -> 260. Block 2: 3, 0, 1, 2: 257 -> 256,
    // stays. Block 3 begins with 256.
    EXPECT_EQ(blocks, (std::vector<float>{260, 260, 256, 256}));
  });
}

}  // namespace nccl_operations_test
}  // namespace twofold::emulated_test
