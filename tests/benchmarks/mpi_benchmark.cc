// What the mpi fabric adds to MPI: its collectives beside the bare blocking calls, in one process and one table.
//
//   mpirun -n 2 mpi_benchmark [Google Benchmark's flags]; mpi.py does that and judges
//
// Rank 0 measures; the others do what it says. f32, sums; `bytes` is the payload as nccl-tests counts it. Both sides
// use the same buffers, touched before, in batches by turns, so that what disturbs the machine disturbs both; the
// counters bare_us and mpi_us are the medians of their batches.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "backends/mpi/fabric.h"
#include "benchmark/benchmark.h"

namespace twofold {
namespace {

constexpr int64_t kMost = int64_t{64} << 20;

// The tensors of one rank, of which every case uses the front.
struct Buffers {
  explicit Buffers(RankContext& ctx) {
    for (Tensor* t : {&in, &out}) {
      *t = ctx.device().NewTensor(Shape{kMost / 4}, DType::kF32, Category::kOther);
      std::fill_n(t->data<float>(), kMost / 4, 0.0f);  // zeros stay zeros, however often summed
    }
  }
  Tensor In(int64_t bytes) const { return in.Slice(0, bytes / 4); }
  Tensor Out(int64_t bytes) const { return out.Slice(0, bytes / 4); }
  Tensor in, out;
};

int Count(int64_t bytes) { return static_cast<int>(bytes / 4); }

struct Case {
  const char* name;
  void (*bare)(const Buffers& b, int64_t bytes, int ranks);
  void (*ours)(const Buffers& b, int64_t bytes, ProcessGroup& world);
};
const Case kCases[] = {
    {"all_reduce",
     [](const Buffers& b, int64_t n, int) {
       MPI_Allreduce(MPI_IN_PLACE, b.in.raw(), Count(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor t = b.In(n);
       world.AllReduce(t).Wait();
     }},
    {"all_gather",
     [](const Buffers& b, int64_t n, int ranks) {
       MPI_Allgather(b.in.raw(), Count(n / ranks), MPI_FLOAT, b.out.raw(), Count(n / ranks), MPI_FLOAT, MPI_COMM_WORLD);
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor out = b.Out(n);
       world.AllGather(out, b.In(n / world.size())).Wait();
     }},
    {"reduce_scatter",
     [](const Buffers& b, int64_t n, int ranks) {
       MPI_Reduce_scatter_block(b.in.raw(), b.out.raw(), Count(n / ranks), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor out = b.Out(n / world.size());
       world.ReduceScatter(out, b.In(n)).Wait();
     }},
    {"broadcast",
     [](const Buffers& b, int64_t n, int) { MPI_Bcast(b.in.raw(), Count(n), MPI_FLOAT, 0, MPI_COMM_WORLD); },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor t = b.In(n);
       world.Broadcast(t, 0).Wait();
     }},
    {"all_to_all",
     [](const Buffers& b, int64_t n, int ranks) {
       MPI_Alltoall(b.in.raw(), Count(n / ranks), MPI_FLOAT, b.out.raw(), Count(n / ranks), MPI_FLOAT, MPI_COMM_WORLD);
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor out = b.Out(n);
       world.AllToAll(out, b.In(n)).Wait();
     }},
};

// What rank 0 asks the others for: `calls` of a case; none: the end.
struct Request {
  int64_t which, ours, bytes, calls;
};

void Do(const Request& r, const Buffers& b, ProcessGroup& world) {
  const Case& c = kCases[r.which];
  for (int64_t i = 0; i < r.calls; ++i) {
    if (r.ours != 0)
      c.ours(b, r.bytes, world);
    else
      c.bare(b, r.bytes, world.size());
  }
}

void Tell(Request& r) { MPI_Bcast(&r, 4, MPI_INT64_T, 0, MPI_COMM_WORLD); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void Measure(benchmark::State& state, Request r, const Buffers& b, ProcessGroup& world) {
  r.calls = std::clamp<int64_t>((int64_t{1} << 20) / r.bytes, 1, 50);
  std::vector<double> microseconds[2];
  for (auto _ : state) {
    for (r.ours = 0; r.ours < 2; ++r.ours) {
      Tell(r);
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      Do(r, b, world);
      microseconds[r.ours].push_back((MPI_Wtime() - start) / static_cast<double>(r.calls) * 1e6);
    }
  }
  state.counters["bare_us"] = Median(microseconds[0]);
  state.counters["mpi_us"] = Median(microseconds[1]);
}

std::string RankMain(RankContext& ctx) {
  const Buffers buffers(ctx);
  if (ctx.rank() != 0) {
    for (Request r{}; Tell(r), r.calls > 0;) {
      MPI_Barrier(MPI_COMM_WORLD);
      Do(r, buffers, ctx.world());
    }
    return "";
  }
  for (size_t c = 0; c < std::size(kCases); ++c) {
    for (int64_t bytes = 64; bytes <= kMost; bytes *= 8) {
      const std::string name = std::string(kCases[c].name) + "/" + std::to_string(bytes);
      const Request request{static_cast<int64_t>(c), 0, bytes, 0};
      benchmark::RegisterBenchmark(name.c_str(), [request, &buffers, &ctx](benchmark::State& state) {
        Measure(state, request, buffers, ctx.world());
      })->UseRealTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  Request end{};
  Tell(end);
  return "";
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  twofold::spec::Spec spec;
  spec.mutable_fabric()->set_timeout_s(600);
  const auto fabric = twofold::MakeMpiFabric(spec);
  const int ranks = (*fabric)->processes();
  if (ranks < 2) {
    std::fprintf(stderr, "mpi_benchmark: start it with mpirun -n 2, or by tests/benchmarks/mpi.py\n");
    return 2;
  }
  const twofold::RunResult result = (*fabric)->Run(ranks, twofold::RankMain);
  if (!result.status.ok()) std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str());
  return result.status.ok() ? 0 : 1;
}
