// One way for an MPI run to go wrong (or well): scenario NAME RANKS TIMEOUT_S [SIGNALLED_RANK]. Every process that mpirun
// starts runs this; the one that speaks prints
//   code N / message TEXT / result RANK TEXT
#include <csignal>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/mpi/fabric.h"
#include "core/base/errors.h"

namespace twofold {
namespace {

using Body = std::function<void(RankContext&)>;

Tensor Floats(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  std::fill_n(t.data<float>(), n, 1.0f);
  return t;
}
void Reduce(RankContext& c, int64_t n = 10) {
  Tensor t = Floats(c, n);
  c.world().AllReduce(t).Wait();
}
void Forever(RankContext& c) {
  while (true) Reduce(c);
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

const std::map<std::string, Body> kScenarios = {
    {"well", [](RankContext& c) { Reduce(c); }},
    {"well_in_flight",
     [](RankContext& c) {
       Tensor t = Floats(c, 100000);
       Work w = c.world().AllReduce(t);
     }},
    {"throw", Culprit([](RankContext&) { throw std::runtime_error("injected"); })},
    {"throw_in_flight",
     Culprit([](RankContext& c) {
       auto alone = Floats(c, 1000);
       Work w = c.world().Recv(alone, 0, 5);
       throw std::logic_error("while in flight");
     })},
    {"throw_seven", Culprit([](RankContext&) { throw 7; })},
    {"exit", Culprit([](RankContext&) { exit(3); })},
    {"exit_zero", Culprit([](RankContext&) { exit(0); })},
    {"kill", Culprit([](RankContext&) { raise(SIGKILL); })},
    {"abort", Culprit([](RankContext&) { abort(); })},
    {"kill_first",
     [](RankContext& c) {
       c.SetPartialResult("part of " + std::to_string(c.rank()));
       Reduce(c);
       if (c.rank() == 0) raise(SIGKILL);
       Forever(c);
     }},
    {"hang", Culprit([](RankContext&) { while (true) std::this_thread::sleep_for(std::chrono::milliseconds(5)); })},
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
    {"split",
     [](RankContext& c) {
       if (c.rank() == 0) c.world().Split(0, 0, "half");
       else Forever(c);
     }},
    {"sub_group",
     [](RankContext& c) {
       auto half = c.world().Split(c.rank() % 2, c.rank(), "half");
       Tensor t = Floats(c, c.rank() == 2 ? 20 : 10);
       half->AllReduce(t).Wait();
       Forever(c);
     }},
    {"forever", [](RankContext& c) { Forever(c); }},
};

int Main(int argc, char** argv) {
  if (argc < 4 || !kScenarios.contains(argv[1])) {
    std::fprintf(stderr, "usage: scenario NAME RANKS TIMEOUT_S\n");
    return 2;
  }
  spec::Spec spec;
  spec.mutable_fabric()->mutable_mpi();
  spec.mutable_fabric()->set_timeout_s(std::atof(argv[3]));
  auto fabric = MakeMpiFabric(spec);
  const Body& body = kScenarios.at(argv[1]);
  const RunResult result = (*fabric)->Run(std::atoi(argv[2]), [&body](RankContext& c) -> std::string {
    c.SetPartialResult("part of " + std::to_string(c.rank()));
    c.SetPartialResultSource([&c] { return "snapshot of " + std::to_string(c.rank()); });
    body(c);
    return "whole of " + std::to_string(c.rank());
  });
  if ((*fabric)->speaks()) {
    std::printf("code %d\nmessage %s\n", static_cast<int>(result.status.code()), std::string(result.status.message()).c_str());
    for (size_t r = 0; r < result.results.size(); ++r) std::printf("result %zu %s\n", r, result.results[r].c_str());
    std::fflush(stdout);
  }
  return result.status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) { return twofold::Main(argc, argv); }
