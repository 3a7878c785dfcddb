// What ranks that share a machine may reserve together.
#include "backends/simulated/shared_memory.h"

#include <memory>

#include "core/base/errors.h"
#include "core/memory/allocator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace shared_memory_test {

SharedSource Source(SharedMemory& shared, int stands_for = 1, Bytes limit = Bytes(0)) {
  return SharedSource(std::make_unique<VirtualSource>(limit), shared, stands_for);
}

TEST(SharedMemory, IsOfAllRanksTogether) {
  SharedMemory shared(MiB(10));
  SharedSource a = Source(shared), b = Source(shared);
  EXPECT_TRUE(a.Reserve(MiB(6)));
  EXPECT_TRUE(b.Reserve(MiB(4)));
  EXPECT_FALSE(b.Reserve(Bytes(1)));
}

TEST(SharedMemory, ARankThatStandsForOthersTakesAsManyTimes) {
  SharedMemory shared(MiB(10));
  SharedSource a = Source(shared, 5);
  EXPECT_TRUE(a.Reserve(MiB(2)));
  EXPECT_FALSE(a.Reserve(Bytes(1)));
}

TEST(SharedMemory, WhatARankHasHadAtItsHighestStaysItsOwn) {
  SharedMemory shared(MiB(10));
  SharedSource a = Source(shared), b = Source(shared);
  const auto first = a.Reserve(MiB(6));
  a.Release(*first, MiB(6));
  EXPECT_TRUE(a.Reserve(MiB(6)));
  EXPECT_FALSE(b.Reserve(MiB(5)));
}

// A device's limit is another thing: what it refuses is not taken of the machine.
TEST(SharedMemory, WhatTheDeviceRefusesIsNotTaken) {
  SharedMemory shared(MiB(10));
  SharedSource a = Source(shared, 1, MiB(3)), b = Source(shared);
  EXPECT_FALSE(a.Reserve(MiB(4)));
  EXPECT_TRUE(b.Reserve(MiB(10)));
}

TEST(SharedMemory, IsNotBoundedWhereItsSizeIsZero) {
  SharedMemory shared(Bytes(0));
  SharedSource a = Source(shared, 1000);
  EXPECT_TRUE(a.Reserve(GiB(1000)));
}

// Nobody gives back what is cached for the sake of others: whether a job fits is what its ranks reserve unbounded.
TEST(SharedMemory, EndsARankEvenIfItHasIdleSegments) {
  SharedMemory shared(MiB(30));
  SharedSource source = Source(shared);
  CachingAllocator allocator(source, 3, "this machine's memory");
  allocator.Allocate(MiB(20), Category::kOther);
  try {
    allocator.Allocate(MiB(24), Category::kActivations);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(),
                testing::StartsWith("rank 3: out of this machine's memory: asked for 25,165,824 bytes of activations"));
  }
}

}  // namespace shared_memory_test
}  // namespace twofold
