#include "kernels/cuda/capability.h"

#include "gmock/gmock.h"

namespace twofold::cuda {
namespace capability_test {

TEST(RunsOn, CodeForAnOldGpuRunsOnNewerOnes) {
  EXPECT_TRUE(RunsOn("80", {8, 0}));
  EXPECT_TRUE(RunsOn("80", {8, 9}));
  EXPECT_TRUE(RunsOn("80", {9, 0})) << "the driver compiles it";
  EXPECT_TRUE(RunsOn("80-virtual", {12, 0}));
  EXPECT_FALSE(RunsOn("80", {7, 5}));
  EXPECT_FALSE(RunsOn("86", {8, 0}));
}

TEST(RunsOn, BinariesAloneRunWithinTheirGeneration) {
  EXPECT_TRUE(RunsOn("80-real", {8, 6}));
  EXPECT_FALSE(RunsOn("80-real", {9, 0}));
  EXPECT_TRUE(RunsOn("100f", {10, 3}));
  EXPECT_FALSE(RunsOn("100f", {12, 0}));
}

TEST(RunsOn, FeaturesOfOneGpuRunOnThatGpuAlone) {
  EXPECT_TRUE(RunsOn("90a", {9, 0}));
  EXPECT_FALSE(RunsOn("90a", {10, 0}));
  EXPECT_FALSE(RunsOn("90a", {8, 0}));
  EXPECT_FALSE(RunsOn("100a", {10, 3}));
}

TEST(RunsOn, AnyOfAListWillDo) {
  EXPECT_TRUE(RunsOn("80;90a", {8, 6}));
  EXPECT_TRUE(RunsOn("90a,80", {10, 0}));
  EXPECT_FALSE(RunsOn("90a;100", {8, 0}));
  EXPECT_TRUE(RunsOn("90a;100", {12, 0}));
  for (const char* text : {"native", "all", "all-major"}) EXPECT_TRUE(RunsOn(text, {9, 0})) << text;
  for (const char* text : {"", ";", "nativ", "9x", "90b"}) EXPECT_FALSE(RunsOn(text, {9, 0})) << text;
}

TEST(WhyNoHopperAttention, NeedsCodeForThatGpuAlone) {
  EXPECT_EQ(WhyNoHopperAttention("80,90a,100", {9, 0}), "");
  EXPECT_EQ(WhyNoHopperAttention("90a-real", {9, 0}), "");
  EXPECT_EQ(WhyNoHopperAttention("80;90a-virtual", {9, 0}), "");
  for (const Capability other : {Capability{8, 0}, {8, 9}, {10, 0}, {12, 0}})
    EXPECT_THAT(WhyNoHopperAttention("80,90a,100", other), testing::HasSubstr("not 9.0")) << other.major;
  EXPECT_EQ(WhyNoHopperAttention("80,90a", {8, 6}), "the GPU has compute capability 8.6, not 9.0");
  for (const char* text : {"", "80", "90", "80,90,100", "190a", "native", "all"})
    EXPECT_THAT(WhyNoHopperAttention(text, {9, 0}), testing::HasSubstr("not for 90a")) << text;
}

TEST(WhyFp8IsWidened, NeedsCodeThatTheGpuRuns) {
  for (const auto& [list, gpu] : {std::pair<const char*, Capability>{"80;90a", {9, 0}},
                                  {"80,89", {8, 9}},
                                  {"89", {12, 0}},
                                  {"80;90a;100", {12, 0}},
                                  {"native", {8, 9}}})
    EXPECT_EQ(WhyFp8IsWidened(list, gpu), "") << list;
  EXPECT_EQ(WhyFp8IsWidened("80;89", {8, 6}), "the GPU has compute capability 8.6, and FP8 begins with 8.9");
  for (const auto& [list, gpu] : {std::pair<const char*, Capability>{"80;90a", {8, 9}},
                                  {"80;90a", {10, 0}},
                                  {"80", {9, 0}},
                                  {"80,90-real", {8, 9}}})
    EXPECT_THAT(WhyFp8IsWidened(list, gpu), testing::HasSubstr("runs none for 8.9 or newer")) << list;
}

}  // namespace capability_test
}  // namespace twofold::cuda
