// Clusters that name a device: its fields, what they override, and what is refused.
#include <fstream>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topologies/catalogue.h"
#include "topologies/import/gpu_names.h"

namespace twofold {
namespace device_profile_test {

using testing::HasSubstr;

absl::StatusOr<cluster::Cluster> Read(const std::string& lines) {
  const std::string path = testing::TempDir() + "/device_profile.textproto";
  std::ofstream(path) << "name: \"mine\" machines { nodes: 1 node { single {} } }\n" << lines;
  return FindCluster(path);
}

TEST(DeviceProfileTest, GivesTheDeviceAndItsLaws) {
  const auto c = Read("device_profile: \"h100-sxm\"");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->device().SerializeAsString(), FindDevice("h100-sxm")->SerializeAsString());
  EXPECT_EQ(c->device().laws().multiprocessors(), 132);
}

TEST(DeviceProfileTest, FieldsOfTheClusterCountMoreAndBandwidthsOfLawsFollowTheMemory) {
  const auto c = Read("device_profile: \"a100-sxm\" device { name: \"other\" memory_bytes_per_second: 1.0195e12 }");
  ASSERT_TRUE(c.ok()) << c.status();
  const cluster::Device full = *FindDevice("a100-sxm");
  EXPECT_EQ(c->device().name(), "other");
  EXPECT_EQ(c->device().memory_bytes(), full.memory_bytes());
  EXPECT_NEAR(c->device().laws().products(0).memory_tbytes_per_second(),
              full.laws().products(0).memory_tbytes_per_second() / 2, 1e-9);
  EXPECT_NEAR(c->device().laws().attention(0).memory_tbytes_per_second(),
              full.laws().attention(0).memory_tbytes_per_second() / 2, 1e-9);
}

TEST(DeviceProfileTest, ARateOfTrainingIsNotAsDoubtfulAsTheOneThatItReplaces) {
  const cluster::KernelLaws own = FindDevice("b200-sxm")->laws();
  EXPECT_GT(own.training_error(), 0);
  const auto laws = [](const std::string& lines) {
    return Read(StrCat("device_profile: \"b200-sxm\" device { laws { ", lines, " } }"))->device().laws();
  };
  EXPECT_EQ(laws("training_tflops: 1400").training_tflops(), 1400);
  EXPECT_FALSE(laws("training_tflops: 1400").has_training_error());
  EXPECT_FALSE(laws("training_tflops: 1400").has_training_source());
  EXPECT_EQ(laws("training_tflops: 1400 training_error: 0.1").training_error(), 0.1);
  EXPECT_EQ(laws("nn_factor: 1").training_error(), own.training_error());
}

TEST(DeviceProfileTest, MayBeAFileBesideTheClusters) {
  std::ofstream(testing::TempDir() + "/my-gpu.textproto")
      << "kind: GPU_DEVICE name: \"my\" memory_bytes: 1000 memory_bytes_per_second: 1e12 f32_flops_per_second: 1e13";
  const auto c = Read("device_profile: \"my-gpu.textproto\"");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->device().name(), "my");
}

TEST(DeviceProfileTest, UnknownNamesAndIncompleteDevicesAreRefused) {
  EXPECT_THAT(Read("device_profile: \"h10-sxm\"").status().message(),
              HasSubstr("device_profile: \"h10-sxm\" is neither a known device nor a .textproto file"));
  std::ofstream(testing::TempDir() + "/bad-gpu.textproto") << "kind: GPU_DEVICE name: \"my\" memory_bytes: 1000";
  EXPECT_THAT(Read("device_profile: \"bad-gpu.textproto\"").status().message(),
              HasSubstr("device.memory_bytes_per_second"));
}

TEST(ComputeCapability, IsThatOfNvidiasGpus) {
  for (const auto& [device, capability] : {std::pair<const char*, double>{"v100-sxm2", 7.0},
                                           {"a100-sxm", 8.0},
                                           {"h100-sxm", 9.0},
                                           {"h200-sxm", 9.0},
                                           {"b200-sxm", 10.0},
                                           {"gb200", 10.0}})
    EXPECT_EQ(FindDevice(device)->compute_capability(), capability) << device;
  for (const char* other : {"mi250x-gcd", "mi300x"}) EXPECT_FALSE(FindDevice(other)->has_compute_capability()) << other;
}

// A cluster has it from its device, or states it.
TEST(ComputeCapability, OfTheCataloguesClustersIsThatOfTheGpusName) {
  int known = 0;
  for (const ClusterInfo& info : ListClusters()) {
    const cluster::Device device = FindCluster(info.name)->device();
    const NamedGpu* const gpu = FindGpu(device.name());
    if (gpu == nullptr) continue;
    ++known;
    EXPECT_EQ(device.compute_capability(), gpu->sm / 10.0) << info.name;
  }
  EXPECT_GT(known, 15);
}

TEST(ComputeCapability, IsANumberWithOneDigit) {
  EXPECT_EQ(Read("device_profile: \"b200-sxm\" device { compute_capability: 10.3 }")->device().compute_capability(),
            10.3);
  for (const char* bad : {"0", "-9", "90", "8.95", "nan"}) {
    EXPECT_THAT(
        Read(StrCat("device_profile: \"h100-sxm\" device { compute_capability: ", bad, " }")).status().message(),
        HasSubstr("device.compute_capability: "))
        << bad;
  }
}

}  // namespace device_profile_test
}  // namespace twofold
