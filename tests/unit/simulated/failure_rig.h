// A cluster and a kind of data, and ranks that run on it: what the tests of failures share.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>

#include "backends/simulated/fabric.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {

inline constexpr char kStar[] = R"(
  name: "star"
  device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
           matmul_efficiency: 1 memory_efficiency: 1 }
  star { hosts: 256 link_gbytes_per_second: 1 latency_us: 1000 }
)";
inline constexpr char kHost[] = R"(
  name: "host"
  device { kind: CPU_DEVICE memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 matmul_efficiency: 1 memory_efficiency: 1 }
  shared_memory_host { cores: 64 latency_us: 1000 core_gbytes_per_second: 1 total_gbytes_per_second: 100 }
)";

struct Setting {
  const char* name;
  const char* cluster;
  spec::Simulated::DataMode data;
};
inline void PrintTo(const Setting& s, std::ostream* out) { *out << s.name; }

inline RunResult RunRanks(const Setting& setting, int ranks, const RankFunction& fn, double timeout_s = 60,
                          spec::Simulated::Folding folding = spec::Simulated::OFF, bool elastic = false) {
  const std::string path = StrCat(testing::TempDir(), "/failures-", setting.name, "-", getpid(), ".textproto");
  std::ofstream(path) << setting.cluster;
  spec::Spec spec;
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  if (elastic) spec.mutable_train()->mutable_elastic();
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_cluster(path);
  simulated.set_folding(folding);
  simulated.set_algorithm("auto");
  simulated.set_data(setting.data);
  auto fabric = MakeSimulatedFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(ranks, fn);
  std::remove(path.c_str());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
  return result;
}

inline Tensor Zeros(RankContext& c, int64_t n, DType dtype = DType::kF32) {
  Tensor t = c.device().NewTensor(Shape{n}, dtype, Category::kOther);
  c.device().Launch(c.device().compute(), ops::Fill{t, 0});
  return t;
}
inline std::string Message(const RunResult& r) { return std::string(r.status.message()); }

class FailureRig : public testing::TestWithParam<Setting> {
 protected:
  RunResult Run(int ranks, const RankFunction& fn, double timeout_s = 60) {
    return RunRanks(GetParam(), ranks, fn, timeout_s);
  }
  void ExpectMismatch(const std::function<void(RankContext&)>& fn, const std::string& expected) {
    const RunResult result = Run(2, [&](RankContext& c) {
      Tensor t = Zeros(c, 1);
      c.world().AllReduce(t).Wait();
      c.SetPartialResult("so far");
      fn(c);
      return std::string("whole");
    });
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(result), StrCat("collective mismatch in group ", expected));
    EXPECT_THAT(result.results, testing::Each("so far"));
  }
};

inline constexpr Setting kSettings[] = {{"StarSymbolic", kStar, spec::Simulated::SYMBOLIC},
                                        {"HostReal", kHost, spec::Simulated::REAL},
                                        {"StarReal", kStar, spec::Simulated::REAL},
                                        {"HostSymbolic", kHost, spec::Simulated::SYMBOLIC}};
inline auto AllSettings() { return testing::ValuesIn(kSettings); }
// Each cluster and each kind of data once.
inline auto OneOfEachKind() { return testing::ValuesIn(kSettings, kSettings + 2); }
inline std::string NameOf(const testing::TestParamInfo<Setting>& info) { return info.param.name; }

}  // namespace twofold
