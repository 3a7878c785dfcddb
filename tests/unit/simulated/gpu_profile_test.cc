// A GPU as calibration measured it: the host launches, the GPU works, and which of the two a step waits for can be said
// by heart.
#include "backends/simulated/graph_launches.h"
#include "gmock/gmock.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace gpu_profile_test {

using testing::HasSubstr;

// Of the host, a launch takes 10 us, a tensor 2 us and reading an element back 30 us; small fills take 2 us of the GPU,
// large ones 40.
constexpr char kGpu[] = R"(
  name: "made up" source: "by heart" processor: "a GPU" peak_flops_per_second: 1e12
  kernels { name: "fill" dtype: "f32" launch_s: 10e-6 points { dims: 1 dims: 1000 bytes: 4000 seconds: 2e-6 }
            points { dims: 1 dims: 10000000 bytes: 40000000 seconds: 40e-6 } }
  gpu { memory_bytes: 1000000000 multiprocessors: 10 launch { seconds: 5e-6 } allocation { seconds: 2e-6 } read_back { seconds: 30e-6 }
        within { bytes_per_second: 5e11 } to_device { bytes_per_second: 1e10 latency { seconds: 5e-6 } }
        to_host { bytes_per_second: 2e10 latency { seconds: 1e-6 } } }
)";
constexpr char kCpu[] = R"(
  name: "made up" source: "by heart" processor: "a CPU" cores: 2
  kernels { name: "fill" dtype: "f32" points { dims: 1 dims: 1000 bytes: 4000 seconds: 2e-6 } }
)";
constexpr double kLaunch = 12e-6, kSmall = 2e-6, kLarge = 40e-6, kReadBack = 30e-6, kUpload = 5e-6;
constexpr int64_t kSmallNumbers = 1000, kLargeNumbers = 10000000;
constexpr int kLaunches = 100;

struct GpuProfileTest : SimulatedTest {
  spec::Spec WithProfile(const char* text, const std::string& cluster = kPlain) {
    spec::Spec spec = Spec(1, cluster);
    spec.set_device(spec::CUDA);
    spec.mutable_fabric()->mutable_simulated()->set_profile(Write(".profile.textproto", text));
    return spec;
  }
  spec::Spec ThisMachine(const char* text) {
    spec::Spec spec = WithProfile(text);
    spec.mutable_fabric()->mutable_simulated()->set_cluster("this-machine");
    return spec;
  }
  std::string Refusal(const spec::Spec& spec) { return std::string(MakeSimulatedFabric(spec).status().message()); }
};

void Fill(RankContext& ctx, const Tensor& t, int times) {
  for (int i = 0; i < times; ++i) ctx.device().Launch(ctx.device().compute(), ops::Fill{t, 0});
}

TEST_F(GpuProfileTest, SmallKernelsTakeWhatTheHostTakesToLaunchThem) {
  const RunResult result = Run(WithProfile(kGpu), [](RankContext& ctx) {
    Fill(ctx, Floats(ctx, kSmallNumbers), kLaunches);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(kLaunches * kLaunch + kSmall));
}

TEST_F(GpuProfileTest, LargeKernelsHideTheirLaunches) {
  const RunResult result = Run(WithProfile(kGpu), [](RankContext& ctx) {
    Fill(ctx, Floats(ctx, kLargeNumbers), kLaunches);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(kLaunch + kLaunches * kLarge));
}

// In the first two steps each operation is launched; from the third on a graph launches them all.
TEST_F(GpuProfileTest, AGraphTakesOneLaunchAndALittleForEachOperation) {
  constexpr int kOfASection = 100, kSteps = 5;
  const auto seconds = [&](bool graphs, int64_t numbers) {
    spec::Spec spec = WithProfile(kGpu);
    spec.mutable_cuda()->set_graphs(graphs);
    const RunResult result = Run(spec, [=](RankContext& ctx) {
      const Tensor t = Floats(ctx, numbers);
      double began = 0;
      for (int step = 0; step < kSteps; ++step) {
        if (step == 2) began = ctx.clock().Now().value();
        Fill(ctx, t, kOfASection);
        ctx.device().compute().Synchronize();
      }
      return Number((ctx.clock().Now().value() - began) * 1e6);
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    const bool noted = testing::PrintToString(result.notes).find("cuda.graphs: where operations") != std::string::npos;
    EXPECT_EQ(noted, graphs);
    return std::stod(result.results[0]) * 1e-6 / (kSteps - 2);
  };
  const double section = kGraphLaunch + kOfASection * (kGraphOperation + kGraphNode);
  EXPECT_NEAR(seconds(false, kSmallNumbers), kOfASection * kLaunch + kSmall, 1e-10);
  EXPECT_NEAR(seconds(true, kSmallNumbers), section + kOfASection * kSmall, 1e-10) << "they begin once it is launched";
  EXPECT_NEAR(seconds(true, kLargeNumbers), section + kOfASection * kLarge, 1e-10);
}

// Behind it the host has no lead: the next launch is waited for.
TEST_F(GpuProfileTest, AnItemDrainsTheStream) {
  const RunResult result = Run(WithProfile(kGpu), [](RankContext& ctx) {
    Fill(ctx, Floats(ctx, kLargeNumbers), 3);
    ctx.device().Item(Floats(ctx, 1), {.value = 1, .what = "loss"});
    Fill(ctx, Floats(ctx, kLargeNumbers), 2);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(kLaunch + 3 * kLarge + kReadBack + kLaunch + 2 * kLarge));
}

TEST_F(GpuProfileTest, WhatTheHostWritesIsOnItsWayBeforeTheKernel) {
  const RunResult result = Run(WithProfile(kGpu), [](RankContext& ctx) {
    Tensor batch = Floats(ctx, 100000);
    ctx.device().Upload(batch, [](std::span<std::byte>) {});
    Fill(ctx, Floats(ctx, kLargeNumbers), 1);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(5e-6 + 2e-6 + kUpload + 400000 / 1e10 + kLarge));
}

TEST_F(GpuProfileTest, TheReportSaysWhereFiguresAreFrom) {
  const RunResult result = Run(WithProfile(kGpu), Finished);
  ASSERT_TRUE(result.status.ok()) << result.status;
  const std::string notes = testing::PrintToString(result.notes);
  EXPECT_THAT(notes, HasSubstr("profile \\\"made up\\\" (by heart; a GPU, 10 multiprocessors; 1 kernels)"));
  EXPECT_THAT(notes, HasSubstr("a launch takes 5.0 µs"));
}

TEST_F(GpuProfileTest, ThisMachinesGpuIsWhatItsProfileSays) {
  const RunResult result = Run(ThisMachine(kGpu), [](RankContext& ctx) {
    Fill(ctx, Floats(ctx, kLargeNumbers), kLaunches);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(kLaunch + kLaunches * kLarge));
  spec::Spec two = ThisMachine(kGpu);
  two.mutable_parallel()->set_dp(2);
  EXPECT_THAT(Refusal(two), HasSubstr("parallel: 2 ranks on GPUs of this-machine cannot be predicted, because the "
                                      "links between its GPUs are not known"));
}

// Of threads on GPUs: where the cluster says which library communicates, that is another.
TEST_F(GpuProfileTest, CollectivesOfTheProfileDoNotReplaceAClustersLibrary) {
  std::string measured = kGpu;
  measured.insert(measured.rfind('}'),
                  " collectives_of: 'in_memory' collectives { operation: 'all_reduce' ranks: 2 points { bytes: 4 "
                  "seconds: 0.125 } }");
  const auto seconds = [&](const std::string& cluster, std::string_view note) {
    spec::Spec spec = WithProfile(measured.c_str(), cluster);
    spec.mutable_parallel()->set_dp(2);
    const RunResult result = Run(spec, [](RankContext& ctx) {
      Tensor t = Floats(ctx, 1);
      const double before = ctx.clock().Now().value();
      ctx.world().AllReduce(t).Wait();
      ctx.device().compute().Synchronize();
      return Number(ctx.clock().Now().value() - before);
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(result.notes, testing::Contains(HasSubstr(note)));
    return std::stod(result.results[0]);
  };
  EXPECT_GT(seconds(kPlain, "the profile's collectives were measured on fabric in_memory"), 0.12);
  EXPECT_LT(seconds(StrCat(kPlain, " library { name: 'ideal' }"), "measured on fabric in_memory, are ignored"), 0.01);
}

TEST_F(GpuProfileTest, MemoryIsTheProfiles) {
  const RunResult result = Run(WithProfile(kGpu), [](RankContext& ctx) {
    Floats(ctx, 300000000);
    return std::string("no");
  });
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("out of memory"));
}

TEST_F(GpuProfileTest, AClustersFileNamesAProfileBesideIt) {
  const std::string profile = Write(".profile.textproto", kGpu);
  std::string cluster = kPlain;
  const std::string device = "device {";
  cluster.insert(cluster.find(device) + device.size(),
                 StrCat(" profile: \"", std::filesystem::path(profile).filename().string(), "\""));
  const RunResult result = Run(Spec(1, cluster), [](RankContext& ctx) {
    Fill(ctx, Floats(ctx, kLargeNumbers), kLaunches);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(kLaunch + kLaunches * kLarge));
}

TEST_F(GpuProfileTest, AProfileOfAnotherKindOfDeviceIsRefused) {
  EXPECT_THAT(
      Refusal(WithProfile(kCpu)),
      HasSubstr(
          "is a profile of a CPU (a CPU), but cluster plain computes on GPUs; use a profile that `twofold calibrate "
          "--device=cuda` wrote"));
  spec::Spec spec = ThisMachine(kGpu);
  spec.set_device(spec::CPU);
  EXPECT_THAT(Refusal(spec), HasSubstr("is a profile of a GPU (a GPU), but cluster this-machine computes on CPUs"));
}

std::string With(std::string profile, std::string_view field) {
  const std::string after = "multiprocessors: 10";
  return profile.replace(profile.find(after), after.size(), StrCat(after, " ", std::string(field)));
}

// As a GPU refuses it that cannot run that kernel.
TEST_F(GpuProfileTest, HopperAttentionNeedsAHopper) {
  const auto asked = [&](const std::string& profile, const std::string& cluster) {
    spec::Spec spec = profile.empty() ? Spec(1, cluster) : WithProfile(profile.c_str(), cluster);
    spec.set_device(spec::CUDA);
    spec.mutable_cuda()->set_attention(spec::Cuda::HOPPER);
    return spec;
  };
  EXPECT_THAT(
      Refusal(asked(
          "",
          StrCat("name: 'mine' device_profile: 'a100-sxm' star { hosts: 2 link_gbytes_per_second: 1 latency_us: 1 }"))),
      HasSubstr("cuda.attention: HOPPER needs GPUs of compute capability 9.0, but fabric.simulated.cluster has "
                "A100-80GB SXM of 8.0; use AUTO or OWN, or a cluster of h100-sxm, h200-sxm"));
  EXPECT_THAT(Refusal(asked("", kPlain)), HasSubstr("of which none is known (device.compute_capability)"));
  EXPECT_THAT(Refusal(asked(With(kGpu, "compute_capability: 8.6"), kPlain)), HasSubstr("has a GPU of 8.6;"));
  const RunResult result = Run(asked(With(kGpu, "compute_capability: 9.0"), kPlain), Finished);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.notes,
              testing::Contains(HasSubstr("cuda.attention: HOPPER is predicted to take the time of AUTO")));
}

TEST_F(GpuProfileTest, Fp8IsPredictedWhereItWasMeasured) {
  const auto asked = [&](const std::string& profile, spec::Fp8::Scaling scaling) {
    spec::Spec spec = WithProfile(profile.c_str());
    spec.mutable_train()->mutable_precision()->set_matmul(spec::Precision::FP8);
    spec.mutable_train()->mutable_precision()->mutable_fp8()->set_scaling(scaling);
    return spec;
  };
  const auto kernel = [](const char* name, const char* type) {
    return StrCat(" kernels { name: '", name, "' dtype: '", type,
                  "' points { dims: 64 dims: 64 dims: 64 flops: 524288 bytes: 20000 seconds: 2e-6 } }");
  };
  const std::string current = StrCat(kGpu, kernel("matmul_fp8_nt", "u8"), kernel("quantise_fp8", "bf16"));
  EXPECT_THAT(Refusal(asked(kGpu, spec::Fp8::CURRENT)),
              HasSubstr("has a GPU, which has only what a profile measured, and that has no FP8"));
  EXPECT_THAT(Refusal(asked(current, spec::Fp8::BLOCK)), HasSubstr("and that has no FP8"));
  EXPECT_EQ(Refusal(asked(current, spec::Fp8::CURRENT)), "");
  spec::Spec own = asked(current, spec::Fp8::CURRENT);
  own.mutable_cuda()->set_fp8(spec::Cuda::Fp8::OWN);
  EXPECT_THAT(Run(own, Finished).notes,
              testing::Contains("cuda.fp8 is OWN, but products in FP8 were measured with AUTO"));
}

TEST_F(GpuProfileTest, WhatAProfileLacksOrHasWrongIsNamed) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text = kGpu;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::tuple<std::string, std::string, std::string> kWrong[] = {
      {"launch { seconds: 5e-6 }", "", "gpu.launch: missing"},
      {"launch { seconds: 5e-6 }", "launch { seconds: 0 }", "gpu.launch.seconds must be greater than 0 (got 0)"},
      {"within { bytes_per_second: 5e11 }", "", "gpu.within: missing"},
      {"within { bytes_per_second: 5e11 }", "within { bytes_per_second: -1 }",
       "gpu.within.bytes_per_second must be greater than 0 (got -1)"},
      {"multiprocessors: 10", "multiprocessors: 0", "gpu.multiprocessors must be greater than 0 (got 0)"},
      {"launch_s: 10e-6", "launch_s: -1", "kernels[0].launch_s must be greater than 0 (got -1)"},
      {"multiprocessors: 10", "multiprocessors: 10 products { dtype: \"bf17\" }",
       "gpu.products[0].dtype must be f32, tf32, bf16 or f16 (got \"bf17\")"},
      {"multiprocessors: 10", "multiprocessors: 10 products { dtype: \"bf16\" }",
       "gpu.products[0].tiles: missing (bf16)"},
      {"multiprocessors: 10", "multiprocessors: 10 products { dtype: \"bf16\" tiles { rows: 1 columns: 1 } }",
       "gpu.products[0].tiles[0].flops_per_second must be greater than 0 (got 0)"},
  };
  for (const auto& [from, to, message] : kWrong)
    EXPECT_THAT(Refusal(WithProfile(with(from, to).c_str())), HasSubstr(message)) << to;
}

}  // namespace gpu_profile_test
}  // namespace twofold
