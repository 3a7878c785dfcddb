#include "core/base/machine.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace machine_test {

namespace fs = std::filesystem;

// A system's files, as of /proc and /sys.
class MemoryLimits : public ::testing::Test {
 protected:
  ~MemoryLimits() override { fs::remove_all(root_); }
  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<Bytes> Least() const { return LeastMemoryLimit(root_ / "groups", root_ / "sys"); }

  const fs::path root_ = test::ScratchFolder("memory_limits");
};

TEST_F(MemoryLimits, TheLeastOfAGroupAndThoseAboveItCounts) {
  Write("groups", "0::/slurm/job_7/step_0\n");
  Write("sys/slurm/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(Least(), std::nullopt);
  Write("sys/slurm/memory.max", "64000000000\n");
  Write("sys/slurm/job_7/memory.max", "8000000000\n");
  EXPECT_EQ(Least(), Bytes(8'000'000'000));
  Write("sys/slurm/job_7/step_0/memory.max", "9000000000\n");
  EXPECT_EQ(Least(), Bytes(8'000'000'000));
}

// Inside a container the path is the host's, and the files are the container's own.
TEST_F(MemoryLimits, OfVersionOneAndWhereThePathIsAnothers) {
  Write("groups", "11:cpu,cpuacct:/docker/4f\n4:memory:/docker/4f:0\n0::/\n");
  Write("sys/cpu,cpuacct/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(Least(), std::nullopt);
  Write("sys/memory/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(Least(), Bytes(2'147'483'648));
}

TEST_F(MemoryLimits, NoneWhereThereAreNoGroups) {
  EXPECT_EQ(Least(), std::nullopt);
  Write("groups", "no groups\n:::\n");
  EXPECT_EQ(Least(), std::nullopt);
}

TEST(MachineMemory, IsSomething) { EXPECT_GT(MachineMemory(), Bytes(1 << 20)); }

TEST_F(MemoryLimits, ThreadsAreLimitedByTheLeastOfAllThatLimitsThem) {
  const auto most = [this] { return MostThreads(root_ / "proc", root_ / "sys"); };
  Write("proc/sys/vm/max_map_count", "2001\n");
  Write("proc/sys/kernel/threads-max", "1500\n");
  EXPECT_EQ(most().threads, 1000);
  EXPECT_EQ(most().what, "vm.max_map_count = 2001, and each thread takes 2");
  Write("proc/sys/kernel/threads-max", "900\n");
  EXPECT_EQ(most().what, "kernel.threads-max = 900");
  Write("proc/self/cgroup", "0::/job\n");
  Write("sys/job/pids.max", "64\n");
  EXPECT_EQ(most().threads, 64);
  EXPECT_EQ(most().what, "pids.max of the control group = 64");
}

}  // namespace machine_test
}  // namespace twofold
