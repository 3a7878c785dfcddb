// What a simulated hybrid of thousands of ranks costs: 1T parameters on 3,072 A100s, as Narayanan et al. 2021 trained
// it (tp 8, pp 64, dp 6, 512 micro-batches of one sample, full recomputation), from tests/unit/simulated/hybrid_job.h.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "backends/simulated/fabric.h"
#include "tests/unit/simulated/hybrid_job.h"

namespace twofold {
namespace {

void OneTrillion(benchmark::State& state) {
  HybridJob job;
  job.mesh = {.pp = 64, .dp = 6, .tp = 8};
  job.layers = 2, job.launches = 14, job.rows = 2048, job.hidden = 25600;
  job.micro_batches = static_cast<int>(state.range(0));
  job.gradients = 2'000'000'000;
  spec::Spec spec;
  spec.mutable_parallel()->set_pp(job.mesh.pp);
  spec.mutable_parallel()->set_dp(job.mesh.dp);
  spec.mutable_parallel()->set_tp(job.mesh.tp);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_cluster("dgx-a100");
  simulated.set_folding(spec::Simulated::ON);
  auto fabric = MakeSimulatedFabric(spec);
  if (!fabric.ok()) return state.SkipWithError(std::string(fabric.status().message()).c_str());
  for (auto _ : state) {
    const RunResult result = (*fabric)->Run(job.mesh.size(), RunHybrid(job));
    if (!result.status.ok()) return state.SkipWithError(std::string(result.status.message()).c_str());
    state.SetLabel(StrCat(result.results[0].substr(0, 40), "; ", result.notes.back()));
  }
  rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  state.counters["GiB"] = static_cast<double>(used.ru_maxrss) / (1 << 20);
}
BENCHMARK(OneTrillion)->Arg(16)->Arg(64)->Arg(512)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace twofold

BENCHMARK_MAIN();
