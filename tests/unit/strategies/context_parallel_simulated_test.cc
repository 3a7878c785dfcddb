// Context parallelism as predicted and as measured.
#include "tests/unit/simulated/fixture.h"
#include "tests/unit/strategies/context_parallel.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace context_parallel_simulated_test {

class ContextParallelSimulated : public SimulatedTest {
 protected:
  RunResult Simulate(const Case& c, spec::Simulated::DataMode data, const RankFunction& fn) {
    spec::Spec spec = Spec(c.mesh.size(), absl::StrFormat(kHost, c.mesh.size()));
    spec.mutable_fabric()->mutable_simulated()->set_data(data);
    return Run(spec, fn);
  }
};

TEST_F(ContextParallelSimulated, HasTheLossAndTheMemoryOfARealRun) {
  const Case cases[] = {
      {.mesh = {.cp = 2}, .dropout = 0.3, .dtype = DType::kF32},
      {.mesh = {.cp = 4}, .llama_kv_heads = 2, .dtype = DType::kBF16},
      {.mesh = {.cp = 3, .tp = 2}, .sequence_parallel = true, .dtype = DType::kF32},
      {.mesh = {.cp = 3}, .llama_kv_heads = 1, .overlap = false, .dtype = DType::kF32},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    const auto memory = [](RankContext& rank) {
      return StrCat("peak ", rank.memory().peak.value(), " reserved ", rank.memory().peak_reserved.value());
    };
    const RankFunction with_loss = [&](RankContext& rank) {
      const double loss = [&] {
        Rank r(rank, c);
        r.Step();
        return First(r.Step());
      }();
      return StrCat(absl::StrFormat("%a ", loss), memory(rank));
    };
    const RankFunction memory_alone = [&](RankContext& rank) {
      {
        Rank r(rank, c);
        r.Step();
        r.Step();
      }
      return memory(rank);
    };
    const RunResult real = Simulate(c, spec::Simulated::REAL, with_loss),
                    symbolic = Simulate(c, spec::Simulated::SYMBOLIC, memory_alone);
    ASSERT_TRUE(real.status.ok()) << real.status;
    ASSERT_TRUE(symbolic.status.ok()) << symbolic.status;
    const std::vector<std::string> measured = test::OnRanks(c.mesh.size(), with_loss);
    EXPECT_EQ(real.results, measured);
    for (size_t r = 0; r < measured.size(); ++r)
      EXPECT_EQ(symbolic.results[r], measured[r].substr(measured[r].find("peak")));
  }
}

}  // namespace context_parallel_simulated_test
}  // namespace twofold
