// Runs a function on ranks that are threads, for tests of what ranks do together.
#pragma once

#include <gmock/gmock.h>

#include "backends/in_memory/fabric.h"

namespace twofold::test {

inline RunResult RunOnRanks(int ranks, const RankFunction& fn) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_fabric()->set_timeout_s(20);
  spec.mutable_train()->set_threads_per_rank(1);
  auto fabric = MakeInMemoryFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status().message();
  return (*fabric)->Run(ranks, fn);
}

// What every rank returns; the test fails if the run does.
inline std::vector<std::string> OnRanks(int ranks, const RankFunction& fn) {
  RunResult result = RunOnRanks(ranks, fn);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  return result.results.Copies();
}

// Every rank returns "" or what is wrong.
inline void ExpectOnRanks(int ranks, const RankFunction& fn) { EXPECT_THAT(OnRanks(ranks, fn), ::testing::Each("")); }

}  // namespace twofold::test
