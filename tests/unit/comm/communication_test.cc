// Communications as values, and the group of one.
#include "core/comm/communication.h"

#include "backends/in_memory/fabric.h"
#include "core/comm/default_collectives.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace communication_test {

class CommunicationTest : public testing::Test {
 protected:
  MallocSource source_;
  CachingAllocator allocator_{source_, 0};
  Tensor New(int64_t n, DType dtype = DType::kF32) { return Allocate(allocator_, {n}, dtype, Category::kOther); }
};

TEST_F(CommunicationTest, SaysWhatItIs) {
  const Tensor t = New(1000), shard = New(250);
  EXPECT_EQ((Communication{.kind = Communication::kAllReduce, .in = t, .out = t}.ToString()),
            "all_reduce(sum) of f32[1000]");
  EXPECT_EQ(
      (Communication{.kind = Communication::kReduceScatter, .in = t, .out = shard, .op = ReduceOp::kAvg}.ToString()),
      "reduce_scatter(avg) of f32[1000]");
  EXPECT_EQ((Communication{.kind = Communication::kAllGather, .in = shard, .out = t}.ToString()),
            "all_gather of f32[1000]");
  EXPECT_EQ((Communication{.kind = Communication::kBroadcast, .in = t, .out = t, .peer = 3}.ToString()),
            "broadcast of f32[1000] from root 3");
  EXPECT_EQ((Communication{.kind = Communication::kGather, .in = shard, .peer = 3}.ToString()),
            "gather of f32[250] to root 3");
  EXPECT_EQ((Communication{.kind = Communication::kSend, .in = t, .peer = 3, .tag = 4}.ToString()),
            "send of f32[1000] to rank 3, tag 4");
  EXPECT_EQ((Communication{.kind = Communication::kRecv, .out = t, .peer = kAnySource}.ToString()),
            "recv of f32[1000] from any rank, tag 0");
  EXPECT_EQ((Communication{.kind = Communication::kBarrier}.ToString()), "barrier");
  const Communication batch{.kind = Communication::kBatch, .batch = {{P2p::kSend, t, 1}, {P2p::kRecv, shard, 2, 5}}};
  EXPECT_EQ(batch.ToString(), "batch of [send of f32[1000] to rank 1, tag 0; recv of f32[250] from rank 2, tag 5]");
}

TEST_F(CommunicationTest, PayloadIsTheLargerSide) {
  const Tensor t = New(1000), shard = New(250);
  EXPECT_EQ((Communication{.kind = Communication::kAllGather, .in = shard, .out = t}.bytes()), Bytes(4000));
  EXPECT_EQ((Communication{.kind = Communication::kReduceScatter, .in = t, .out = shard}.bytes()), Bytes(4000));
  EXPECT_EQ((Communication{.kind = Communication::kBatch,
                           .batch = {{P2p::kSend, t, 1}, {P2p::kRecv, shard, 2}, {P2p::kSend, shard, 2}}}
                 .bytes()),
            Bytes(5000));
  EXPECT_EQ((Communication{.kind = Communication::kBarrier}.bytes()), Bytes(0));
}

TEST_F(CommunicationTest, WorkspaceOfBuiltCollectives) {
  const Tensor t = New(10), shard = New(5);
  EXPECT_EQ(CollectiveWorkspace({.kind = Communication::kAllReduce, .in = t, .out = t}, 4), Bytes(3 * 3 * 4));
  EXPECT_EQ(CollectiveWorkspace({.kind = Communication::kReduce, .in = t, .out = t}, 4), Bytes(4 * 3 * 4));
  EXPECT_EQ(CollectiveWorkspace({.kind = Communication::kReduceScatter, .in = t, .out = shard}, 2), Bytes(20));
  EXPECT_EQ(CollectiveWorkspace({.kind = Communication::kBarrier}, 9), Bytes(0));
}

TEST(GroupOfOne, CopiesLocallyAndIsDone) {
  const RunResult result = MakeInMemoryFabric(spec::Spec(), in_memory::GroupOptions{})->Run(3, [](RankContext& c) {
    auto alone = c.world().Alone("alone");
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(alone->ranks(), std::vector<int>{c.rank()});
    Tensor in = c.device().NewTensor({4}, DType::kI32, Category::kOther);
    Tensor out = c.device().NewTensor({4}, DType::kI32, Category::kOther);
    for (int i = 0; i < 4; ++i) in.data<int32_t>()[i] = i + c.rank();
    std::fill_n(out.data<int32_t>(), 4, -1);
    Work w = alone->AllGather(out, in);
    EXPECT_TRUE(w.Test());
    EXPECT_EQ(out.data<int32_t>()[3], 3 + c.rank());
    alone->AllReduce(out, ReduceOp::kAvg).Wait();
    alone->Barrier().Wait();
    EXPECT_EQ(out.data<int32_t>()[3], 3 + c.rank());
    const std::vector<Work> works(2);
    EXPECT_EQ(Work::WaitAny(works), 0u);
    EXPECT_TRUE(c.communication().entries().empty());
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

}  // namespace communication_test
}  // namespace twofold
