// What tests of the simulated fabric share: clusters whose times can be said by heart, and what ranks do on them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/fabric.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "gtest/gtest.h"

namespace twofold {

// 1 GFLOP/s, 1 GB/s devices without launch costs on a star of 1 GB/s links and 1 ms latency: times can be said by
// heart.
inline constexpr char kPlain[] = R"(
  name: "plain"
  device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
           matmul_efficiency: 1 memory_efficiency: 1 }
  star { hosts: 64 link_gbytes_per_second: 1 latency_us: 1000 }
)";
// Four devices a node with four NICs, and half of the bandwidth above the leaves.
inline constexpr char kFatTree[] = R"(
  name: "tree"
  device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
           matmul_efficiency: 1 memory_efficiency: 1 }
  machines {
    nodes: 16
    node { nvswitch { gbytes_per_second: 8 } devices: 4 nics: 4 link_us: 100 pcie_gbytes_per_second: 4 pcie_us: 30 }
    network { fat_tree { levels: 2 radix: 12 oversubscription: 2 } link_gbytes_per_second: 1 cable_us: 50 switch_us: 20 nic_us: 60 }
  }
)";
inline constexpr char kHost[] = R"(
  name: "host"
  device { kind: CPU_DEVICE memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 matmul_efficiency: 1 memory_efficiency: 1 }
  shared_memory_host { cores: %d latency_us: 1000 core_gbytes_per_second: 1 total_gbytes_per_second: 100 }
)";
class SimulatedTest : public testing::Test {
 protected:
  spec::Spec Spec(int ranks, const std::string& cluster = kPlain) {
    const std::string path = Write(".textproto", cluster);
    spec::Spec spec;
    spec.mutable_parallel()->set_dp(ranks);
    spec.mutable_fabric()->mutable_simulated()->set_cluster(path);
    spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::OFF);
    spec.mutable_fabric()->mutable_simulated()->set_algorithm("auto");
    return spec;
  }
  RunResult Run(const spec::Spec& spec, const RankFunction& fn) {
    auto fabric = MakeSimulatedFabric(spec);
    EXPECT_TRUE(fabric.ok()) << fabric.status();
    if (!fabric.ok()) return {fabric.status(), {}, {}};
    return (*fabric)->Run(static_cast<int>(spec.parallel().dp()), fn);
  }
  // On as many ranks as the mesh has.
  RunResult RunAll(const spec::Spec& spec, const RankFunction& fn) {
    auto fabric = MakeSimulatedFabric(spec);
    if (!fabric.ok()) return {fabric.status(), {}, {}};
    const spec::Parallel& p = spec.parallel();
    return (*fabric)->Run(static_cast<int>(p.pp() * p.dp() * p.cp() * p.tp()), fn);
  }
  ~SimulatedTest() override {
    for (const std::string& path : written_) std::filesystem::remove(path);
  }
  // A file of this test's, which goes with it.
  std::string Write(const std::string& suffix, const std::string& text) {
    written_.push_back(StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name(),
                              "-", getpid(), "-", written_.size(), suffix));
    std::ofstream(written_.back()) << text;
    return written_.back();
  }

 private:
  std::vector<std::string> written_;
};

inline spec::Spec WithMesh(spec::Spec spec, const MeshShape& mesh) {
  spec::Parallel& p = *spec.mutable_parallel();
  p.set_pp(mesh.pp), p.set_dp(mesh.dp), p.set_cp(mesh.cp), p.set_tp(mesh.tp), p.set_ep(mesh.ep);
  std::string order;
  for (Axis axis : mesh.order) StrAppend(&order, order.empty() ? "" : " ", AxisName(axis));
  p.set_order(order);
  return spec;
}
inline std::string Number(double x) { return absl::StrFormat("%.9g", x); }
// An operation of `seconds` on the plain device: that many GB read and written.
inline void Busy(RankContext& ctx, double seconds) {
  const auto n = static_cast<int64_t>(seconds * 1e9 / 4);
  Tensor t = ctx.device().NewTensor(Shape{n}, DType::kF32, Category::kActivations);
  ctx.device().Launch(ctx.device().compute(), ops::Fill{t, 0});
}
inline Tensor Floats(RankContext& ctx, int64_t n) {
  return ctx.device().NewTensor(Shape{n}, DType::kF32, Category::kActivations);
}
inline std::string Finished(RankContext& ctx) {
  ctx.device().compute().Synchronize();
  return Number(ctx.clock().Now().value());
}

// A data-parallel step in small: compute, overlapped reductions, a wait.
inline std::string Step(RankContext& ctx) {
  Tensor a = Floats(ctx, 1'000'000), b = Floats(ctx, 3'000'000), c = Floats(ctx, 1);
  ctx.world().Broadcast(a, 0).WaitOn(ctx.device().compute());
  ctx.world().Barrier().Wait();
  for (int i = 0; i < 5; ++i) {
    Busy(ctx, 0.01);
    Work first = ctx.world().AllReduce(a);
    Busy(ctx, 0.01);
    Work second = ctx.world().AllReduce(b);
    Busy(ctx, 0.003);
    first.WaitOn(ctx.device().compute());
    second.WaitOn(ctx.device().compute());
    ctx.world().AllReduce(c).Wait();
  }
  std::string out = StrCat(Finished(ctx), " stalled ", Number(ctx.device().compute().stalled().value()), " peak ",
                           ctx.memory().peak.value());
  for (const auto& [key, entry] : ctx.communication().entries()) {
    StrAppend(&out, " ", KindName(key.second), " ", entry.count, " ", entry.bytes.value(), " ",
              Number(entry.seconds.load()));
  }
  return out;
}

}  // namespace twofold
