// One table: all-reduce (f32, sum, in place, 2 ranks) on the in-memory fabric, by bare Open MPI and by Gloo, and a copy
// of the same bytes, which is what the memory could do at best.
//
//   mpirun -n 2 --bind-to none all_reduce_benchmark [Google Benchmark's flags]; all_reduce.py does that and judges
//
// Process 0 measures. The in-memory ranks are two threads of it, and process 1 sleeps meanwhile; for Open MPI and Gloo
// the two processes are the ranks. Everybody's buffers have been touched, and the first result is checked, before the
// clock runs. `bytes_per_second` counts the payload (algbw): an all-reduce over 2 ranks reads two buffers and writes
// two, the copy reads one and writes one, on one thread.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "benchmark/benchmark.h"

#ifdef TWOFOLD_HAVE_GLOO
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/transport/tcp/device.h"
#endif

namespace twofold {
namespace {

enum class Library : int64_t { kNone, kOpenMpi, kGlooRing, kGlooBcube };

// What process 0 asks process 1 to take part in: `calls` all-reduces, after a first one that is checked.
struct Request {
  Library library;
  int64_t bytes;
  int64_t calls;
};
constexpr int kRequestTag = 1;
constexpr size_t kRanks = 2;

void OpenMpiAllReduce(std::vector<float>& values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

#ifdef TWOFOLD_HAVE_GLOO
// Two processes over TCP on the loopback interface, which is what Gloo has on one machine.
std::shared_ptr<gloo::Context> ConnectGloo(int rank) {
  char folder[] = "/tmp/all_reduce_benchmark_XXXXXX";
  if (rank == 0 && mkdtemp(folder) == nullptr) throw std::runtime_error("no folder for Gloo's store under /tmp");
  MPI_Bcast(folder, sizeof(folder), MPI_CHAR, 0, MPI_COMM_WORLD);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, static_cast<int>(kRanks));
  std::shared_ptr<gloo::transport::Device> loopback = gloo::transport::tcp::CreateDevice("localhost");
  context->connectFullMesh(store, loopback);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::filesystem::remove_all(folder);
  return context;
}

std::function<void(std::vector<float>&)> GlooAllReduce(std::shared_ptr<gloo::Context> context, Library library) {
  return [context, library](std::vector<float>& values) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(library == Library::kGlooRing ? gloo::AllreduceOptions::Algorithm::RING
                                                       : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}
std::shared_ptr<gloo::Context> gloo_context;
#endif

std::function<void(std::vector<float>&)> AllReduceOf(Library library) {
#ifdef TWOFOLD_HAVE_GLOO
  if (library != Library::kOpenMpi) return GlooAllReduce(gloo_context, library);
#endif
  return OpenMpiAllReduce;
}

// The first call, on ones; zeros afterwards, so that sums stay what they are.
template <class AllReduce>
bool FirstSumIsRight(float* values, size_t count, AllReduce all_reduce) {
  std::fill_n(values, count, 1.0f);
  all_reduce();
  const bool right = std::all_of(values, values + count, [](float v) { return v == static_cast<float>(kRanks); });
  std::fill_n(values, count, 0.0f);
  return right;
}

// ---- Process 1 ----

// Sleeps between looks: a blocking receive would spin.
Request NextRequest() {
  int there = 0;
  while (true) {
    MPI_Iprobe(0, kRequestTag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (there != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Request request;
  MPI_Recv(&request, sizeof(request), MPI_BYTE, 0, kRequestTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return request;
}

void Serve() {
  while (true) {
    const Request request = NextRequest();
    if (request.library == Library::kNone) return;
    std::vector<float> values(static_cast<size_t>(request.bytes) / sizeof(float));
    const auto all_reduce = AllReduceOf(request.library);
    FirstSumIsRight(values.data(), values.size(), [&] { all_reduce(values); });
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t i = 0; i < request.calls; ++i) all_reduce(values);
  }
}

// ---- Process 0 ----

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

void InMemory(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const auto calls = static_cast<int64_t>(state.max_iterations);
  const auto fabric = MakeInMemoryFabric(spec::Spec(), in_memory::GroupOptions{});
  const RunResult result = fabric->Run(kRanks, [&](RankContext& c) {
    Tensor t = c.device().NewTensor({bytes / 4}, DType::kF32, Category::kOther);
    const bool right =
        FirstSumIsRight(t.data<float>(), static_cast<size_t>(t.numel()), [&] { c.world().AllReduce(t).Wait(); });
    c.world().Barrier().Wait();
    if (c.rank() == 0) {
      for (auto _ : state) c.world().AllReduce(t).Wait();
    } else {
      for (int64_t i = 0; i < calls; ++i) c.world().AllReduce(t).Wait();
    }
    return std::string(right ? "" : "a wrong sum");
  });
  if (!result.status.ok()) state.SkipWithError(std::string(result.status.message()).c_str());
  for (const std::string& wrong : result.results) {
    if (!wrong.empty()) state.SkipWithError(wrong.c_str());
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void BetweenProcesses(benchmark::State& state, Library library) {
  const Request request{library, state.range(0), static_cast<int64_t>(state.max_iterations)};
  MPI_Send(&request, sizeof(request), MPI_BYTE, 1, kRequestTag, MPI_COMM_WORLD);
  std::vector<float> values(static_cast<size_t>(request.bytes) / sizeof(float));
  const auto all_reduce = AllReduceOf(library);
  const bool right = FirstSumIsRight(values.data(), values.size(), [&] { all_reduce(values); });
  MPI_Barrier(MPI_COMM_WORLD);
  for (auto _ : state) all_reduce(values);
  if (!right) state.SkipWithError("a wrong sum");
  state.SetBytesProcessed(state.iterations() * request.bytes);
}

void Register() {
  auto row = [](const char* name, auto&& function) {
    benchmark::RegisterBenchmark(name, function)->RangeMultiplier(4)->Range(1 << 10, 256 << 20)->UseRealTime();
  };
  row("copy", Copy);
  row("in_memory", InMemory);
  row("bare_open_mpi", [](benchmark::State& s) { BetweenProcesses(s, Library::kOpenMpi); });
#ifdef TWOFOLD_HAVE_GLOO
  row("gloo_ring", [](benchmark::State& s) { BetweenProcesses(s, Library::kGlooRing); });
  row("gloo_bcube", [](benchmark::State& s) { BetweenProcesses(s, Library::kGlooBcube); });
#endif
}

int Main(int argc, char** argv) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != static_cast<int>(kRanks)) {
    if (rank == 0) {
      std::fprintf(stderr,
                   "started with %d process%s; start it as: mpirun -n 2 --bind-to none %s [Google Benchmark's flags]\n",
                   size, size == 1 ? "" : "es", argv[0]);
    }
    MPI_Finalize();
    return 2;
  }
#ifdef TWOFOLD_HAVE_GLOO
  gloo_context = ConnectGloo(rank);
#endif
  if (rank == 1) {
    Serve();
  } else {
    Register();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    const Request over{Library::kNone, 0, 0};
    MPI_Send(&over, sizeof(over), MPI_BYTE, 1, kRequestTag, MPI_COMM_WORLD);
  }
#ifdef TWOFOLD_HAVE_GLOO
  gloo_context.reset();
#endif
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) { return twofold::Main(argc, argv); }
