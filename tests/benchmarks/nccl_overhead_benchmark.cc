// What the nccl fabric adds to NCCL: its communication beside the bare calls, in the same processes, on the same
// memory.
//
//   nccl_overhead_benchmark [RANKS (2)]
//
// starts RANKS processes of itself, a GPU each (or all on one, where NCCL can), and prints a line a case:
//   OPERATION BYTES FORM BARE_US OURS_US RATIO
// `bytes` is the payload as nccl-tests counts it. FORM is "waited" (the host waits for each call before the next) or
// "streamed" (the host waits for the last of a batch alone). Bare calls go to a communicator and a stream of their own,
// made as the fabric makes its own. Both sides take turns, a batch each, so that what disturbs the machine disturbs
// both; figures are medians of batches of the last rank.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "backends/registry.h"
#include "kernels/cuda/streams.h"
#include "tests/gpu/nccl_job.h"

namespace twofold {
namespace {

#ifdef TWOFOLD_EMULATED_CUDA  // that it runs is all that can be seen
constexpr int64_t kSizes[] = {64, 1 << 20};
constexpr int kBatches = 1, kMostCalls = 2;
#else
constexpr int64_t kSizes[] = {64, 64 << 10, 1 << 20, 16 << 20, 64 << 20};  // bytes
constexpr int kBatches = 21, kMostCalls = 40;
#endif
constexpr int64_t kMost = *std::max_element(std::begin(kSizes), std::end(kSizes));

// One side's communicator and stream.
struct Bare {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void Check(ncclResult_t result) const { nccl::Nccl().Check(result, "a bare call", comm); }
  void Wait() const { cuda::Check(cudaStreamSynchronize(stream)); }
};

struct Buffers {
  Tensor in, out;
};
void* At(const Tensor& t) { return reinterpret_cast<void*>(t.address()); }

struct Case {
  const char* name;
  void (*bare)(const Buffers& b, size_t count, int rank, int ranks, const Bare& to);
  Work (*ours)(const Buffers& b, int64_t count, ProcessGroup& world);
};
const Case kCases[] = {
    {"all_reduce",
     [](const Buffers& b, size_t n, int, int, const Bare& to) {
       to.Check(nccl::Nccl().AllReduce(At(b.in), At(b.in), n, ncclFloat32, ncclSum, to.comm, to.stream));
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor t = b.in.Slice(0, n);
       return world.AllReduce(t);
     }},
    {"all_gather",
     [](const Buffers& b, size_t n, int, int ranks, const Bare& to) {
       to.Check(nccl::Nccl().AllGather(At(b.in), At(b.out), n / static_cast<size_t>(ranks), ncclFloat32, to.comm,
                                       to.stream));
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor out = b.out.Slice(0, n / world.size() * world.size());
       return world.AllGather(out, b.in.Slice(0, n / world.size()));
     }},
    {"reduce_scatter",
     [](const Buffers& b, size_t n, int, int ranks, const Bare& to) {
       to.Check(nccl::Nccl().ReduceScatter(At(b.in), At(b.out), n / static_cast<size_t>(ranks), ncclFloat32, ncclSum,
                                           to.comm, to.stream));
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       Tensor out = b.out.Slice(0, n / world.size());
       return world.ReduceScatter(out, b.in.Slice(0, n / world.size() * world.size()));
     }},
    {"send_recv",
     [](const Buffers& b, size_t n, int rank, int ranks, const Bare& to) {
       const nccl::Api& api = nccl::Nccl();
       to.Check(api.GroupStart());
       to.Check(api.Send(At(b.in), n, ncclFloat32, (rank + 1) % ranks, to.comm, to.stream));
       to.Check(api.Recv(At(b.out), n, ncclFloat32, (rank + ranks - 1) % ranks, to.comm, to.stream));
       to.Check(api.GroupEnd());
     },
     [](const Buffers& b, int64_t n, ProcessGroup& world) {
       const int ranks = world.size(), rank = world.rank();
       return world.Batch(std::array{P2p{P2p::kSend, b.in.Slice(0, n), (rank + 1) % ranks},
                                     P2p{P2p::kRecv, b.out.Slice(0, n), (rank + ranks - 1) % ranks}});
     }},
};

Bare MakeBare(RankContext& ctx) {
  Bare bare;
  Tensor id = ctx.device().NewTensor(Shape{NCCL_UNIQUE_ID_BYTES}, DType::kU8, Category::kOther);
  ncclUniqueId unique = {};
  if (ctx.rank() == 0) bare.Check(nccl::Nccl().GetUniqueId(&unique));
  ctx.device().Upload(id,
                      [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), unique.internal, bytes.size()); });
  ctx.world().Broadcast(id, 0).Wait();
  ctx.device().Download(id, std::as_writable_bytes(std::span(unique.internal)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  bare.Check(nccl::Nccl().CommInitRankConfig(&bare.comm, ctx.world_size(), unique, ctx.rank(), &config));
  cuda::Check(cudaStreamCreateWithFlags(&bare.stream, cudaStreamNonBlocking));
  return bare;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Microseconds of one of `calls` calls.
template <class F>
double Time(int64_t calls, ProcessGroup& world, F batch) {
  world.Barrier().Wait();
  const auto start = std::chrono::steady_clock::now();
  batch();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
         static_cast<double>(calls);
}

void Measure(const Case& c, int64_t bytes, bool waited, const Buffers& b, const Bare& bare, RankContext& ctx) {
  const int64_t count = bytes / 4,
                calls = std::min<int64_t>(std::max<int64_t>((int64_t{16} << 20) / bytes, 4), kMostCalls);
  ProcessGroup& world = ctx.world();
  const auto bare_batch = [&] {
    for (int64_t i = 0; i < calls; ++i) {
      c.bare(b, static_cast<size_t>(count), ctx.rank(), ctx.world_size(), bare);
      if (waited) bare.Wait();
    }
    bare.Wait();
  };
  const auto our_batch = [&] {
    std::vector<Work> works;
    for (int64_t i = 0; i < calls; ++i) {
      works.push_back(c.ours(b, count, world));
      if (waited) works.back().Wait();
    }
    for (Work& work : works) work.Wait();
  };
  bare_batch(), our_batch();
  std::vector<double> bare_us, our_us;
  for (int i = 0; i < kBatches; ++i) {
    bare_us.push_back(Time(calls, world, bare_batch));
    our_us.push_back(Time(calls, world, our_batch));
  }
  if (ctx.rank() != ctx.world_size() - 1) return;
  std::printf("%-14s %10lld %-8s %10.2f %10.2f %7.4f\n", c.name, static_cast<long long>(bytes),
              waited ? "waited" : "streamed", Median(bare_us), Median(our_us), Median(our_us) / Median(bare_us));
  std::fflush(stdout);
}

std::string RankMain(RankContext& ctx) {
  const Bare bare = MakeBare(ctx);
  Buffers b;
  for (Tensor* t : {&b.in, &b.out}) {
    *t = ctx.device().NewTensor(Shape{kMost / 4}, DType::kF32, Category::kOther);
    ctx.device().Upload(*t, [](std::span<std::byte> bytes) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    });  // zeros stay zeros
  }
  ctx.device().compute().Synchronize();
  for (const Case& c : kCases) {
    for (const int64_t bytes : kSizes) {
      for (const bool waited : {true, false}) Measure(c, bytes, waited, b, bare, ctx);
    }
  }
  bare.Check(nccl::Nccl().CommDestroy(bare.comm));
  cuda::Check(cudaStreamDestroy(bare.stream));
  return "";
}

int RunRank(int ranks) {
  spec::Spec spec;
  spec.set_device(spec::CUDA);
  spec.mutable_fabric()->mutable_nccl();
  spec.mutable_fabric()->set_timeout_s(60);
  const auto fabric = MakeFabric(spec);
  const absl::Status status = fabric.ok() ? (*fabric)->Run(ranks, RankMain).status : fabric.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

int RunAll(int ranks) {
  if (const std::string why = test::WhyNotNccl(ranks); !why.empty())
    return std::fprintf(stderr, "nccl_overhead_benchmark: %s\n", why.c_str()), 77;
  test::NcclJob job;
  const auto ended = job.Run(ranks, {StrCat(ranks)}, 120);
  for (size_t r = 0; r < ended.size(); ++r) {
    if (ended[r].status == 0) continue;
    return std::fprintf(stderr, "nccl_overhead_benchmark: rank %zu: exit status %d\n%s", r, ended[r].status,
                        ended[r].output.c_str()),
           1;
  }
  std::fputs(ended.back().output.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  if (const auto arguments = twofold::test::AsRank(argc, argv))
    return twofold::RunRank(std::atoi(arguments->at(0).c_str()));
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks >= 2) return twofold::RunAll(ranks);
  std::fprintf(stderr, "nccl_overhead_benchmark: the number of ranks must be at least 2 (got \"%s\")\n", argv[1]);
  return 2;
}
