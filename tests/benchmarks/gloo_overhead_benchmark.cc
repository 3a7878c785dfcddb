// What the gloo fabric adds to Gloo: its communication beside the bare calls, in the same processes, on the same
// memory.
//
//   twofold launch --ranks=2 --fabric=gloo --program=gloo_overhead_benchmark [OPERATION]
//
// prints a line a case: OPERATION BYTES BARE_US OURS_US RATIO, from medians of calls at rank 0, and then the same three
// figures from the shortest calls, which other load disturbs less. `bytes` is the payload as nccl-tests counts it. Bare
// calls go to a context of their own. Both sides take turns, a call each, and in who begins, so that what disturbs the
// machine disturbs both. Gloo's own reduce_scatter, by halving and doubling, overwrites its input, and has its buffers
// made before the calls; ours keeps the input.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backends/gloo/context.h"
#include "backends/registry.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int64_t kSizes[] = {64, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};  // bytes
constexpr int64_t kMost = *std::max_element(std::begin(kSizes), std::end(kSizes));
constexpr int kCalls = 41;
std::string g_only;  // the operation that is asked for; all if empty

float* At(const Tensor& t) { return reinterpret_cast<float*>(t.address()); }

// Connected by Gloo itself, through files in a folder of that name.
gloo::ContextPtr MakeBare(RankContext& ctx, const char* name) {
  const auto ranks = static_cast<size_t>(ctx.world_size());
  Tensor own = ctx.device().NewTensor(Shape{1}, DType::kI32, Category::kOther),
         all = ctx.device().NewTensor(Shape{ctx.world_size()}, DType::kI32, Category::kOther);
  const int32_t process = getpid();
  std::memcpy(own.raw(), &process, sizeof process);
  ctx.world().AllGather(all, own).Wait();
  std::vector<int32_t> of_each(ranks);
  std::memcpy(of_each.data(), all.raw(), ranks * sizeof process);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / StrCat("twofold-", name, "-", of_each[0]);
  std::filesystem::create_directories(folder);
  ::gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<::gloo::rendezvous::Context>(ctx.rank(), ctx.world_size());
  std::shared_ptr<::gloo::transport::Device> transport = gloo::MakeTransport(/*one_host=*/true, "");
  context->connectFullMesh(store, transport);
  ctx.world().Barrier().Wait();
  if (ctx.rank() == 0) std::filesystem::remove_all(folder);
  return context;
}

void BareAllReduce(const gloo::ContextPtr& context, float* data, size_t count) {
  ::gloo::AllreduceOptions options(context);
  options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::RING);
  options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&::gloo::sum<float>));
  options.setOutput(data, count);
  ::gloo::allreduce(options);
}

void BareAllGather(const gloo::ContextPtr& context, float* in, float* out, size_t count) {
  ::gloo::AllgatherOptions options(context);
  options.setInput(in, count);
  options.setOutput(out, count * static_cast<size_t>(context->size));
  ::gloo::allgather(options);
}

void BareBroadcast(const gloo::ContextPtr& context, float* data, size_t count) {
  ::gloo::BroadcastOptions options(context);
  options.setOutput(data, count);
  options.setRoot(0);
  ::gloo::broadcast(options);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// `start`: a group whose barriers precede the calls.
void Compare(ProcessGroup& start, const char* name, int64_t bytes, const std::function<void()>& bare,
             const std::function<void()>& ours) {
  if (!g_only.empty() && g_only != name) return;
  std::vector<double> of_bare, of_ours;
  const auto time = [&](const std::function<void()>& call) {
    start.Barrier().Wait();
    const auto begin = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  };
  bare(), ours();
  for (int i = 0; i < kCalls; ++i) {
    if (i % 2 == 0) of_bare.push_back(time(bare));
    of_ours.push_back(time(ours));
    if (i % 2 == 1) of_bare.push_back(time(bare));
  }
  if (start.rank() > 0) return;
  const double b = Median(of_bare), o = Median(of_ours);
  const double least_b = *std::ranges::min_element(of_bare), least_o = *std::ranges::min_element(of_ours);
  std::printf("%-15s %9lld %10.1f %10.1f %6.3f %10.1f %10.1f %6.3f\n", name, static_cast<long long>(bytes), b, o, o / b,
              least_b, least_o, least_o / least_b);
  std::fflush(stdout);
}

std::string CompareAll(RankContext& ctx) {
  // The buffers of Gloo's older algorithms slow down the newer ones on the same context.
  const gloo::ContextPtr bare = MakeBare(ctx, "bare-gloo"), older = MakeBare(ctx, "bare-older-gloo");
  Tensor in = ctx.device().NewTensor(Shape{kMost / 4}, DType::kF32, Category::kOther),
         out = ctx.device().NewTensor(Shape{kMost / 4}, DType::kF32, Category::kOther);
  std::fill_n(At(in), kMost / 4, 0.0f);
  // Its messages go over connections of their own: those of both sides carry nothing but what is timed.
  const std::unique_ptr<ProcessGroup> start =
      ctx.world().SplitEvenly(ctx.world_size(), ProcessGroup::Pattern::kConsecutive, "start");
  for (const int64_t bytes : kSizes) {
    const int64_t count = bytes / 4, block = count / ctx.world_size();
    Tensor all = in.Slice(0, count), gathered = out.Slice(0, block * ctx.world_size()), part = out.Slice(0, block);
    Compare(
        *start, "all_reduce", bytes, [&] { BareAllReduce(bare, At(all), static_cast<size_t>(count)); },
        [&] { ctx.world().AllReduce(all).Wait(); });
    Compare(
        *start, "all_gather", bytes, [&] { BareAllGather(bare, At(in), At(out), static_cast<size_t>(block)); },
        [&] { ctx.world().AllGather(gathered, in.Slice(0, block)).Wait(); });
    ::gloo::ReduceScatterHalvingDoubling<float> reduce_scatter(
        older, {At(all)}, static_cast<int>(count),
        std::vector<int>(static_cast<size_t>(ctx.world_size()), static_cast<int>(block)));
    Compare(
        *start, "reduce_scatter", bytes, [&] { reduce_scatter.run(); },
        [&] { ctx.world().ReduceScatter(part, in.Slice(0, block * ctx.world_size())).Wait(); });
    Compare(
        *start, "broadcast", bytes, [&] { BareBroadcast(bare, At(all), static_cast<size_t>(count)); },
        [&] { ctx.world().Broadcast(all, 0).Wait(); });
  }
  return "";
}

int Main() {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_gloo();
  spec.mutable_fabric()->set_timeout_s(60);
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeFabric(spec);
  if (!fabric.ok()) {
    std::fprintf(stderr, "%s\n", std::string(fabric.status().message()).c_str());
    return 2;
  }
  const int ranks = (*fabric)->processes();
  const RunResult result = (*fabric)->Run(ranks, CompareAll);
  if (!result.status.ok()) std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str());
  return result.status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  if (argc > 1) twofold::g_only = argv[1];
  return twofold::Main();
}
