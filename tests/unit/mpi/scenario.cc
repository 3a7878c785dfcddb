// One way for a run of processes to go wrong (or well): scenario NAME[_on_gpu] RANKS TIMEOUT_S [mpi|gloo|nccl]. Every
// process that mpirun starts runs this; the one that speaks prints
//   code N / message TEXT / result RANK TEXT
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/strings/strip.h"
#include "backends/mpi/fabric.h"
#include "backends/mpi/types.h"
#include "backends/registry.h"
#include "core/base/errors.h"

namespace twofold {
namespace {

using Body = std::function<void(RankContext&)>;

Tensor Floats(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  c.device().Launch(c.device().compute(), ops::Fill{.out = t, .value = 1});
  return t;
}
void Reduce(RankContext& c, int64_t n = 10) {
  Tensor t = Floats(c, n);
  c.world().AllReduce(t).Wait();
}
void Forever(RankContext& c) {
  while (true) Reduce(c);
}
void Die() {
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until the others are in their next call
  raise(SIGKILL);
}
// The lowest rank with something to do wrong, so that each scenario has the rest waiting for it.
constexpr int kCulprit = 1;
Body Culprit(Body culprit) {
  return [culprit](RankContext& c) {
    Reduce(c);
    if (c.rank() == kCulprit) culprit(c);
    Forever(c);
  };
}
// After one good call, rank 0 does `a`, the others `b`.
Body Differ(Body a, Body b) {
  return [a, b](RankContext& c) {
    Reduce(c);
    (c.rank() == 0 ? a : b)(c);
    for (int i = 0; i < 100; ++i) Reduce(c);
  };
}

// ---- Large counts ----

float At(int rank, int64_t i) { return static_cast<float>((rank + 1) * (i % 13 + 1)); }

void Require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error("wrong: " + what);
}

// Every communication, with more elements than a count may name (see Limits).
void EveryCommunication(RankContext& c, int64_t count) {
  ProcessGroup& world = c.world();
  const int n = world.size(), me = world.rank();
  auto make = [&](int64_t elements, auto value) {
    Tensor t = c.device().NewTensor(Shape{elements}, DType::kF32, Category::kOther);
    for (int64_t i = 0; i < elements; ++i) t.data<float>()[i] = value(i);
    return t;
  };
  auto check = [&](const Tensor& t, auto value, const char* what) {
    for (int64_t i = 0; i < t.numel(); ++i) Require(t.data<float>()[i] == value(i), what);
  };
  auto mine = [&](int64_t i) { return At(me, i); };
  auto sum = [&](int64_t i) {
    float s = 0;
    for (int r = 0; r < n; ++r) s += At(r, i);
    return s;
  };
  auto block = [&](int64_t i) { return At(static_cast<int>(i / count), i % count); };  // rank by rank
  auto nothing = [](int64_t) { return -1.0f; };

  Tensor t = make(count, mine);
  world.AllReduce(t).Wait();
  check(t, sum, "all_reduce");
  t = make(count, mine);
  world.AllReduce(t, ReduceOp::kAvg).Wait();
  check(
      t, [&](int64_t i) { return sum(i) / static_cast<float>(n); }, "all_reduce(avg)");
  t = make(count, mine);
  world.Reduce(t, ReduceOp::kSum, n - 1).Wait();
  check(
      t, [&](int64_t i) { return me == n - 1 ? sum(i) : mine(i); }, "reduce");
  t = make(count, mine);
  world.Broadcast(t, 1).Wait();
  check(
      t, [&](int64_t i) { return At(1, i); }, "broadcast");

  Tensor all = make(count * n, nothing), shard = make(count, mine);
  world.AllGather(all, shard).Wait();
  check(all, block, "all_gather");
  Tensor root = me == 0 ? make(count * n, nothing) : Tensor();
  world.Gather(root, shard, 0).Wait();
  if (me == 0) check(root, block, "gather");
  world.Scatter(shard, root, 0).Wait();
  check(shard, mine, "scatter");

  auto whole = [&](int64_t i) { return At(me, i); };
  auto reduced = [&](int64_t i) { return sum(me * count + i); };
  all = make(count * n, whole);
  world.ReduceScatter(shard, all).Wait();
  check(shard, reduced, "reduce_scatter");
  check(all, whole, "input of reduce_scatter");
  Tensor inside = all.Slice(me * count, count);
  world.ReduceScatter(inside, all).Wait();
  check(inside, reduced, "reduce_scatter in place");

  all = make(count * n, whole);
  Tensor out = make(count * n, nothing);
  world.AllToAll(out, all).Wait();
  auto exchanged = [&](int64_t i) { return At(static_cast<int>(i / count), me * count + i % count); };
  check(out, exchanged, "all_to_all");
  out = make(count * n, nothing);
  const std::vector<int64_t> counts(static_cast<size_t>(n), count);
  world.AllToAllV(out, counts, all, counts).Wait();
  check(out, exchanged, "all_to_all_v");

  t = make(count, mine);
  Tensor from = make(count, nothing);
  const int next = (me + 1) % n, previous = (me + n - 1) % n;
  const P2p both[] = {{P2p::kSend, t, next}, {P2p::kRecv, from, previous}};
  world.Batch(both).Wait();
  check(
      from, [&](int64_t i) { return At(previous, i); }, "batch");
  if (me == 0) world.Send(t, 1).Wait();
  if (me == 1) {
    Work w = world.Recv(from, kAnySource);
    w.Wait();
    Require(w.source() == 0, "source");
    check(
        from, [&](int64_t i) { return At(0, i); }, "recv");
  }
}

// More than 2^31 elements for real: bytes.
void Huge(RankContext& c) {
  const int64_t count = (int64_t{1} << 31) + 5;
  Tensor t = c.device().NewTensor(Shape{count}, DType::kU8, Category::kOther);
  auto bytes = t.data<uint8_t>();
  auto all_are = [&](uint8_t value) {
    return std::all_of(bytes, bytes + count, [value](uint8_t b) { return b == value; });
  };
  std::fill_n(bytes, count, static_cast<uint8_t>(c.rank() + 1));
  c.world().AllReduce(t).Wait();
  Require(all_are(3), "all_reduce");
  std::fill_n(bytes, count, static_cast<uint8_t>(c.rank() + 1));
  c.world().Broadcast(t, 1).Wait();
  Require(all_are(2), "broadcast");
  std::fill_n(bytes, count, static_cast<uint8_t>(c.rank() + 7));
  if (c.rank() == 0)
    c.world().Send(t, 1).Wait();
  else
    c.world().Recv(t, 0).Wait();
  Require(all_are(7), "message");
}

const std::map<std::string, Body> kScenarios = {
    {"pieces",
     [](RankContext& c) {
       for (int64_t count : {0, 10, 64, 65, 1000, 10007}) EveryCommunication(c, count);
     }},
    {"huge", Huge},
    {"well", [](RankContext& c) { Reduce(c); }},
    {"well_in_flight",
     [](RankContext& c) {
       Tensor t = Floats(c, 100000);
       Work w = c.world().AllReduce(t);
     }},
    {"throw", Culprit([](RankContext&) { throw std::runtime_error("injected"); })},
    {"throw_in_flight", Culprit([](RankContext& c) {
       auto alone = Floats(c, 1000);
       Work w = c.world().Recv(alone, 0, 5);
       throw std::logic_error("while in flight");
     })},
    {"throw_seven", Culprit([](RankContext&) { throw 7; })},
    {"exit", Culprit([](RankContext&) { exit(3); })},
    {"exit_zero", Culprit([](RankContext&) { exit(0); })},
    {"kill", Culprit([](RankContext&) { Die(); })},
    {"abort", Culprit([](RankContext&) { abort(); })},
    {"kill_first",
     [](RankContext& c) {
       c.SetPartialResult("part of " + std::to_string(c.rank()));
       Reduce(c);
       if (c.rank() == 0) Die();
       Forever(c);
     }},
    {"hang", Culprit([](RankContext&) {
       while (true) std::this_thread::sleep_for(std::chrono::milliseconds(5));
     })},
    {"stop", Culprit([](RankContext&) { raise(SIGSTOP); })},
    {"return_early",
     [](RankContext& c) {
       Reduce(c);
       if (c.rank() != kCulprit) Reduce(c);
     }},
    {"kind", Differ([](RankContext& c) { Reduce(c, 8); },
                    [](RankContext& c) {
                      Tensor t = Floats(c, 4 * c.world_size()), shard = Floats(c, 4);
                      c.world().AllGather(t, shard).Wait();
                    })},
    {"count", Differ([](RankContext& c) { Reduce(c, 10); }, [](RankContext& c) { Reduce(c, 11); })},
    {"count_large", Differ([](RankContext& c) { Reduce(c, 1000000); }, [](RankContext& c) { Reduce(c, 1000001); })},
    {"dtype", Differ([](RankContext& c) { Reduce(c, 4); },
                     [](RankContext& c) {
                       Tensor t = c.device().NewTensor(Shape{4}, DType::kI32, Category::kOther);
                       c.world().AllReduce(t).Wait();
                     })},
    {"op", Differ([](RankContext& c) { Reduce(c, 4); },
                  [](RankContext& c) {
                    Tensor t = Floats(c, 4);
                    c.world().AllReduce(t, ReduceOp::kMax).Wait();
                  })},
    {"root",
     [](RankContext& c) {
       Tensor t = Floats(c, 4);
       c.world().Broadcast(t, c.rank() == 0 ? 0 : 1).Wait();
       for (int i = 0; i < 100; ++i) Reduce(c);
     }},
    {"order", Differ(
                  [](RankContext& c) {
                    Tensor t = Floats(c, 4);
                    c.world().AllReduce(t).Wait();
                    c.world().Broadcast(t, 0).Wait();
                  },
                  [](RankContext& c) {
                    Tensor t = Floats(c, 4);
                    c.world().Broadcast(t, 0).Wait();
                    c.world().AllReduce(t).Wait();
                  })},
    {"extra",
     [](RankContext& c) {
       Reduce(c);
       Tensor t = Floats(c, 4);
       if (c.rank() == 0) c.world().Broadcast(t, 0).Wait();
     }},
    {"all_to_all_v",
     [](RankContext& c) {
       const auto n = static_cast<size_t>(c.world_size());
       Tensor in = Floats(c, 100), out = Floats(c, 100);
       std::vector<int64_t> send(n, 1), take(n, 1);
       if (c.rank() == 1) take[0] = 3;
       c.world().AllToAllV(out, take, in, send).Wait();
       Forever(c);
     }},
    {"message_too_short",
     [](RankContext& c) {
       Tensor t = Floats(c, c.rank() == 0 ? 9 : 10);
       if (c.rank() == 0) c.world().Send(t, 1).Wait();
       if (c.rank() == 1) c.world().Recv(t, 0).Wait();
       Forever(c);
     }},
    {"message_too_long",
     [](RankContext& c) {
       Tensor t = Floats(c, c.rank() == 0 ? 11 : 10);
       if (c.rank() == 0) c.world().Send(t, 1).Wait();
       if (c.rank() == 1) c.world().Recv(t, 0).Wait();
       Forever(c);
     }},
    {"deadlock",  // too large to be buffered
     [](RankContext& c) {
       Tensor t = Floats(c, 1 << 20);
       if (c.rank() < 2) c.world().Send(t, 1 - c.rank(), 3).Wait();
       Forever(c);
     }},
    {"message_tag",
     [](RankContext& c) {
       Tensor t = Floats(c, 10);
       if (c.rank() == 0) c.world().Send(t, 1, 3).Wait();
       if (c.rank() == 1) c.world().Recv(t, 0, 4).Wait();
       Forever(c);
     }},
    {"any_source_of_nobody",
     [](RankContext& c) {
       Tensor t = Floats(c, 10);
       if (c.rank() == 1) c.world().Recv(t, kAnySource, 4).Wait();
       Forever(c);
     }},
    {"split",
     [](RankContext& c) {
       if (c.rank() == 0)
         c.world().Split(0, 0, "half");
       else
         Forever(c);
     }},
    {"sub_group",
     [](RankContext& c) {
       auto half = c.world().Split(c.rank() % 2, c.rank(), "half");
       Tensor t = Floats(c, c.rank() == 2 ? 20 : 10);
       half->AllReduce(t).Wait();
       Forever(c);
     }},
    {"forever",
     [](RankContext& c) {
       Reduce(c);
       if (c.rank() == 0) std::puts("started"), std::fflush(stdout);
       Forever(c);
     }},
};

int Main(int argc, char** argv) {
  std::string name = argc < 4 ? "" : argv[1];
  const std::string backend = argc > 4 ? argv[4] : "mpi";
  const bool nccl = backend == "nccl";
  spec::Spec spec;
  if (nccl)
    spec.mutable_fabric()->mutable_nccl();
  else if (backend == "gloo")
    spec.mutable_fabric()->mutable_gloo();
  else
    spec.mutable_fabric()->mutable_mpi();
  absl::string_view base = name;
  if (absl::ConsumeSuffix(&base, "_on_gpu") || nccl) spec.set_device(spec::CUDA);
  name = std::string(base);
  if (!kScenarios.contains(name)) {
    std::fprintf(stderr, "usage: scenario NAME[_on_gpu] RANKS TIMEOUT_S [mpi|gloo|nccl]\n");
    return 2;
  }
  spec.mutable_fabric()->set_timeout_s(std::atof(argv[3]));
  const bool pieces = name == "pieces";
  if (pieces || name == "huge")
    spec.mutable_fabric()->set_timeout_s(120);  // calls of many messages each, between ranks that share cores
  auto fabric = backend != "mpi" ? MakeFabric(spec)
                                 : MakeMpiFabric(spec, pieces ? mpi::Limits{.most_elements = 64} : mpi::Limits());
  if (!fabric.ok()) {
    std::fprintf(stderr, "%s\n", std::string(fabric.status().message()).c_str());
    return 2;
  }
  const Body& body = kScenarios.at(name);
  const RunResult result = (*fabric)->Run(std::atoi(argv[2]), [&body](RankContext& c) -> std::string {
    c.SetPartialResult("part of " + std::to_string(c.rank()));
    c.SetPartialResultSource([&c] { return "snapshot of " + std::to_string(c.rank()); });
    body(c);
    return "whole of " + std::to_string(c.rank());
  });
  if ((*fabric)->speaks()) {
    std::printf("code %d\nmessage %s\n", static_cast<int>(result.status.code()),
                std::string(result.status.message()).c_str());
    for (size_t r = 0; r < result.results.size(); ++r) std::printf("result %zu %s\n", r, result.results[r].c_str());
    std::fflush(stdout);
  }
  return result.status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) { return twofold::Main(argc, argv); }
