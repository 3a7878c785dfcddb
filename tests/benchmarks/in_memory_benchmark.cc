// All-reduce between in-memory ranks, beside memcpy of the same bytes: what the memory could do at best.
//
// `bytes_per_second` counts the payload (algbw). An all-reduce over 2 ranks reads two buffers and writes two; the copy
// reads one and writes one, on one thread.
#include <cstring>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "benchmark/benchmark.h"

namespace twofold {
namespace {

// Ranks ask rank 0's benchmark loop whether to go on through a broadcast of one byte every kBatch calls.
constexpr int kBatch = 16;

void AllReduce(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const int ranks = static_cast<int>(state.range(1));
  const auto fabric = MakeInMemoryFabric(spec::Spec(), in_memory::GroupOptions{});
  const RunResult result = fabric->Run(ranks, [&](RankContext& c) {
    Tensor t = c.device().NewTensor({bytes / 4}, DType::kF32, Category::kOther);
    Tensor more = c.device().NewTensor({1}, DType::kU8, Category::kOther);
    std::memset(t.raw(), 0, static_cast<size_t>(bytes));
    auto one_batch = [&] {
      for (int i = 0; i < kBatch; ++i) c.world().AllReduce(t).Wait();
    };
    auto go_on = [&](bool yes) {
      *more.data<uint8_t>() = yes;
      c.world().Broadcast(more, 0).Wait();
      return *more.data<uint8_t>() != 0;
    };
    one_batch();
    if (c.rank() == 0) {
      while (state.KeepRunningBatch(kBatch)) {
        go_on(true);
        one_batch();
      }
      go_on(false);
    } else {
      while (go_on(false)) one_batch();
    }
    return std::string();
  });
  if (!result.status.ok()) state.SkipWithError(std::string(result.status.message()).c_str());
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(AllReduce)->ArgsProduct({benchmark::CreateRange(1 << 10, 64 << 20, 4), {2}})->UseRealTime();

void Copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Copy)->RangeMultiplier(4)->Range(1 << 10, 64 << 20)->UseRealTime();

}  // namespace
}  // namespace twofold

BENCHMARK_MAIN();
