// What the library says to the graphs of attention and convolutions, for GPUs that it is told of. It asks the driver
// for no more than to be there, and the toolkit has one that does nothing, for linking.
#include "kernels/cuda/graph_plan.h"

#include <dlfcn.h>

#include <algorithm>

#include "core/base/strings.h"
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/library_attention.h"
#include "tests/unit/kernels/lab.h"

namespace twofold::cuda {
namespace graph_plan_test {

// Loading needs no GPU.
TEST(Cudnn, IsLoadedOnceWithAllItsFunctions) {
  if (!WhyNoCudnn().empty()) GTEST_SKIP() << WhyNoCudnn();
  const Cudnn& cudnn = TheCudnn();
  EXPECT_EQ(&cudnn, &TheCudnn());
  EXPECT_EQ(cudnn.GetVersion() / 10000, 9u);
  cudnn.Check(CUDNN_STATUS_SUCCESS, "nothing");
  try {
    cudnn.Check(CUDNN_STATUS_NOT_SUPPORTED, "attention of 3 x 4");
    FAIL();
  } catch (const CudaError& e) {
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("NOT_SUPPORTED"), testing::HasSubstr("attention of 3 x 4")));
  }
}

// One that loads and gives no handle, here for want of a GPU, is not used; that is no error of whoever asks.
TEST(Cudnn, WithoutAHandleIsNotUsed) {
  if (!WhyNoCudnn().empty()) GTEST_SKIP() << WhyNoCudnn();
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0) GTEST_SKIP() << "there is a GPU";
  AttentionPlans plans;
  const LibraryAttention a{.pass = AttentionPass::kForward,
                           .type = DType::kBF16,
                           .batch = 1,
                           .rows = 128,
                           .heads = 1,
                           .kv_heads = 1,
                           .dim = 64,
                           .causal = true};
  EXPECT_NE(plans.WhyNot(a, 1 << 20), "");
  EXPECT_NE(plans.WhyNot(a, 1 << 20), "") << "asked again";
  const LibraryConvolution c{
      ConvolutionPass::kForward, DType::kF32, DType::kF32, false, 1, 8, 8, 4, 8, 8, 4, 3, 3, 1, 1};
  Convolutions convolutions(false);
  std::vector<std::string> notes;
  convolutions.SetNote([&](std::string note) { notes.push_back(std::move(note)); });
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(convolutions.Run(c, GraphAddresses{}, nullptr, 0, nullptr));
  ASSERT_EQ(notes.size(), 1u) << "each is told once";
  EXPECT_THAT(notes[0], testing::AllOf(testing::StartsWith(NameOf(c)), testing::HasSubstr(": own kernels (")));
}

struct Gpu {
  std::string_view name;
  int version, multiprocessors, shared_memory, l2_mib, gib;
};
constexpr Gpu kGpus[] = {{"A100", 800, 108, 166912, 40, 80}, {"H100", 900, 132, 232448, 50, 80}};

std::string Description(const Gpu& g) {
  return StrCat(
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,)",
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)",
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)",
      R"("smClockRateKHz":1500000,"memClockRateKHz":1500000,"cudaDeviceId":0,"driverVer":13000,"deviceName":")", g.name,
      R"(","deviceVer":)", g.version, R"(,"multiProcessorCount":)", g.multiprocessors,
      R"(,"maxSharedMemoryPerBlockOptin":)", g.shared_memory, R"(,"l2CacheSize":)", g.l2_mib << 20,
      R"(,"totalGlobalMem":)", int64_t{g.gib} << 30, "}");
}

class GraphPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoCudnn().empty()) GTEST_SKIP() << WhyNoCudnn();
    if (const std::string why = WhyNotVersion(static_cast<int64_t>(TheCudnn().GetVersion())); !why.empty())
      GTEST_SKIP() << why;
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr &&
        dlopen(TWOFOLD_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      GTEST_SKIP() << "there is no driver of CUDA, nor a toolkit's stub of it: " << dlerror();
    }
  }

  static BackendDescriptor DescriptionOf(const Gpu& gpu) {
    const std::string text = Description(gpu);
    BackendDescriptor description(TheCudnn(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    description.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()),
                    text.data());
    description.Finalize();
    return description;
  }

  // What engines there are for it on such a GPU, and the least that one wants of workspace.
  static std::vector<size_t> Wanted(const LibraryAttention& a, const Gpu& gpu) {
    const BackendDescriptor description = DescriptionOf(gpu);
    const GraphPlan plan(TheCudnn(), GraphOf(a), {.description = &description});
    std::vector<size_t> wanted;
    for (const GraphPlan::Engine& engine : plan.engines()) wanted.push_back(engine.workspace_bytes);
    return wanted;
  }
};

struct Shapes {
  int64_t batch, rows, heads, kv_heads, dim;
};
constexpr Shapes kShapes[] = {{8, 1024, 12, 12, 64}, {4, 2048, 32, 8, 128}, {2, 1000, 12, 12, 80},
                              {2, 77, 4, 2, 64},     {1, 17, 2, 1, 16},     {2, 512, 2, 2, 256}};

// What the first engine wants, which is the one that is taken, has room in what the rule gives beyond the graph's own
// tensors.
void ExpectRoom(const LibraryAttention& a, const std::vector<size_t>& wanted) {
  SCOPED_TRACE(NameOf(a));
  const int64_t of_heads =
      a.pass == AttentionPass::kForward || a.heads == a.kv_heads ? 0 : 4 * a.batch * a.heads * a.rows * a.dim;
  ASSERT_FALSE(wanted.empty());
  EXPECT_LE(wanted[0], static_cast<size_t>(of_heads) + 512);
}

TEST_F(GraphPlanTest, EveryShapeHasAnEngineThatFitsTheWorkspace) {
  for (const Shapes& s : kShapes) {
    for (const DType type : {DType::kBF16, DType::kF16}) {
      for (const bool causal : {true, false}) {
        LibraryAttention a{.pass = AttentionPass::kForward,
                           .type = type,
                           .batch = s.batch,
                           .rows = s.rows,
                           .heads = s.heads,
                           .kv_heads = s.kv_heads,
                           .dim = s.dim,
                           .causal = causal};
        for (const Gpu& gpu : kGpus) ExpectRoom(a, Wanted(a, gpu));
        a.pass = AttentionPass::kBackward, a.repeatable = false;
        ExpectRoom(a, Wanted(a, kGpus[1]));
      }
    }
  }
}

// Launches of a step that repeats make no descriptors.
TEST_F(GraphPlanTest, ThePackOfAddressesIsMadeOnce) {
  const BackendDescriptor description = DescriptionOf(kGpus[1]);
  GraphPlan plan(TheCudnn(),
                 GraphOf({.pass = AttentionPass::kForward,
                          .type = DType::kBF16,
                          .batch = 1,
                          .rows = 128,
                          .heads = 1,
                          .kv_heads = 1,
                          .dim = 64,
                          .causal = true}),
                 {.description = &description});
  GraphAddresses layers[2] = {};
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t i = 0; i < kGraphOperands; ++i) layers[layer][i] = reinterpret_cast<void*>(512 * (1 + i + 100 * layer));
  }
  auto* const workspace = reinterpret_cast<std::byte*>(1 << 20);
  const cudnnBackendDescriptor_t first = plan.PackOf(layers[0], workspace).get(),
                                 second = plan.PackOf(layers[1], workspace).get(),
                                 elsewhere = plan.PackOf(layers[0], workspace + 512).get();
  EXPECT_NE(first, second);
  EXPECT_NE(first, elsewhere);
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(plan.PackOf(layers[0], workspace).get(), first);
    EXPECT_EQ(plan.PackOf(layers[1], workspace).get(), second);
  }
  for (size_t i = 0; i <= GraphPlan::kMostPacks; ++i) plan.PackOf(layers[0], workspace + 512 * (2 + i));
  const cudnnBackendDescriptor_t anew = plan.PackOf(layers[0], workspace).get();
  EXPECT_EQ(plan.PackOf(layers[0], workspace).get(), anew) << "kept again, after all were given up";
}

// On A100 the backward pass takes as much again as the sums of dq, which it is not given: our kernels are for that.
TEST_F(GraphPlanTest, BackwardOnA100WantsMore) {
  LibraryAttention a{.pass = AttentionPass::kBackward,
                     .type = DType::kBF16,
                     .batch = 2,
                     .rows = 256,
                     .heads = 2,
                     .kv_heads = 2,
                     .dim = 64,
                     .causal = true,
                     .repeatable = false};
  for (const size_t wanted : Wanted(a, kGpus[0])) EXPECT_GE(wanted, WorkspaceOf(a).dq_sums);
  a.dim = 256;
  EXPECT_TRUE(Wanted(a, kGpus[0]).empty());
  EXPECT_NE(WhyNotCudnn(a, 8, kOldestCudnnVersion), "");
}

// The rule of cuda.attention_workspace_mib has room for what cuDNN's first engine wants, and one byte less than the
// scores has none: then the plan is refused, with the setting that it needs.
TEST_F(GraphPlanTest, RepeatableGradientsFitTheirRuleAndNothingLess) {
  for (const Gpu& gpu : kGpus) {
    for (const Shapes& s : kShapes) {
      LibraryAttention a{.pass = AttentionPass::kBackward,
                         .type = DType::kBF16,
                         .batch = s.batch,
                         .rows = s.rows,
                         .heads = s.heads,
                         .kv_heads = s.kv_heads,
                         .dim = s.dim,
                         .causal = true};
      if (WhyNotCudnn(a, gpu.version / 100, kOldestCudnnVersion) != "") continue;
      SCOPED_TRACE(StrCat(gpu.name, " ", NameOf(a)));
      const auto scores = static_cast<size_t>(ops::rules::CudaScoreGradients(s.batch * s.heads, s.rows).value());
      const std::vector<size_t> wanted = Wanted(a, gpu);
      ASSERT_FALSE(wanted.empty());
      const size_t of_heads = a.heads == a.kv_heads ? 0 : static_cast<size_t>(4 * s.batch * s.heads * s.rows * s.dim);
      EXPECT_LE(wanted[0], scores + of_heads + 512);
      const size_t needed = WorkspaceOf(a).bytes() + scores + 2 * ((of_heads / 2 + 511) / 512 * 512);
      EXPECT_EQ(MoreWorkspace(a, needed), "");
      EXPECT_THAT(MoreWorkspace(a, needed - 1), testing::HasSubstr("attention_workspace_mib"));
      const BackendDescriptor description = DescriptionOf(gpu);
      GraphPlan plan(TheCudnn(), GraphOf(a), {.description = &description});
      EXPECT_TRUE(plan.WantsMoreThan(wanted[0] - 1));
      EXPECT_THAT(plan.Make({.most_bytes = *std::min_element(wanted.begin(), wanted.end()) - 1}),
                  testing::HasSubstr("cuDNN needs a workspace of "));
    }
  }
}

// Gradients of queries that repeat to the last bit cost the gradients of all scores, written down: why AUTO seldom
// takes them.
TEST_F(GraphPlanTest, RepeatableGradientsWantTheScoresWrittenDown) {
  for (const Gpu& gpu : kGpus) {
    LibraryAttention a{.pass = AttentionPass::kBackward,
                       .type = DType::kBF16,
                       .batch = 8,
                       .rows = 1024,
                       .heads = 12,
                       .kv_heads = 12,
                       .dim = 64,
                       .causal = true};
    for (const size_t wanted : Wanted(a, gpu)) EXPECT_GE(wanted, size_t{8} * 12 * 1024 * 1024 * 2);
  }
}

// ---- Convolutions ----

struct Convolved {
  int64_t images, side, in, out, kernel, stride, padding;
};
// Of ResNets: the stem, which has three input channels, and others; and some with odd numbers of channels.
constexpr Convolved kConvolved[] = {{8, 224, 3, 64, 7, 2, 3}, {32, 56, 64, 64, 3, 1, 1}, {8, 14, 256, 512, 1, 2, 0},
                                    {4, 9, 12, 20, 5, 1, 2},  {4, 9, 6, 8, 3, 1, 1},     {4, 9, 8, 6, 3, 1, 1},
                                    {4, 9, 8, 7, 3, 1, 1}};

LibraryConvolution Described(ConvolutionPass pass, const Convolved& s, DType type, DType result, bool bias) {
  const int64_t side = (s.side + 2 * s.padding - s.kernel) / s.stride + 1;
  return {pass, type, result, bias,     s.images, s.side,   s.side,   s.in,
          side, side, s.out,  s.kernel, s.kernel, s.stride, s.padding};
}

class ConvolutionPlanTest : public GraphPlanTest {
 protected:
  // The engines that repeat, round no further than the types, and fit the workspace of 32 MiB.
  static size_t Engines(const LibraryConvolution& c, const Gpu& gpu, bool tensor_cores) {
    const BackendDescriptor description = DescriptionOf(gpu);
    const GraphPlan plan(TheCudnn(), GraphOf(c), {.description = &description});
    return static_cast<size_t>(std::count_if(plan.engines().begin(), plan.engines().end(), [&](const auto& engine) {
      return engine.repeatable && !engine.rounds && (tensor_cores || !engine.tensor_cores) &&
             engine.workspace_bytes <= size_t{32} << 20;
    }));
  }
};

TEST_F(ConvolutionPlanTest, EveryPassHasAnEngineThatRepeatsAndFits) {
  for (const Gpu& gpu : kGpus) {
    for (const Convolved& s : kConvolved) {
      for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
        const auto expect = [&](ConvolutionPass pass, bool bias) {
          const LibraryConvolution c = Described(pass, s, type, type, bias);
          EXPECT_GT(Engines(c, gpu, type != DType::kF32), 0u) << gpu.name << " " << NameOf(c);
        };
        for (const bool bias : {false, true}) expect(ConvolutionPass::kForward, bias);
        expect(ConvolutionPass::kBackward, false);
        expect(ConvolutionPass::kWeights, false);
      }
    }
  }
}

// F32 gradients of narrower weights stay with the library, but for odd numbers of channels, as the stem has.
TEST_F(ConvolutionPlanTest, WideGradientsHaveAnEngineIfChannelsAreEven) {
  for (const Gpu& gpu : kGpus) {
    for (const Convolved& s : kConvolved) {
      for (const DType type : {DType::kBF16, DType::kF16}) {
        const LibraryConvolution c = Described(ConvolutionPass::kWeights, s, type, DType::kF32, false);
        EXPECT_EQ(Engines(c, gpu, true) > 0, s.in % 2 == 0 && s.out % 2 == 0) << gpu.name << " " << NameOf(c);
      }
    }
  }
}

// A plan whose kernels need no compiling can be made here, too.
TEST_F(ConvolutionPlanTest, ThePlanOfABiasedConvolutionIsMadeWithinItsWorkspace) {
  const BackendDescriptor description = DescriptionOf(kGpus[1]);
  GraphPlan plan(TheCudnn(),
                 GraphOf(Described(ConvolutionPass::kForward, kConvolved[1], DType::kBF16, DType::kBF16, true)),
                 {.description = &description});
  EXPECT_EQ(plan.Make({.most_bytes = size_t{32} << 20}), "");
  GraphPlan exact(TheCudnn(),
                  GraphOf(Described(ConvolutionPass::kForward, kConvolved[1], DType::kF32, DType::kF32, true)),
                  {.description = &description});
  EXPECT_EQ(exact.Make({.most_bytes = size_t{32} << 20, .tensor_cores = false}), "");
  // An F32 gradient of BF16 weights has engines of tensor cores alone.
  GraphPlan wide(TheCudnn(),
                 GraphOf(Described(ConvolutionPass::kWeights, kConvolved[1], DType::kBF16, DType::kF32, false)),
                 {.description = &description});
  EXPECT_EQ(wide.Make({.most_bytes = size_t{32} << 20, .tensor_cores = false}),
            "cuDNN's engine rounds operands or sums");
}

}  // namespace graph_plan_test
}  // namespace twofold::cuda
