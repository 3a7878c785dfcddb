// `twofold memory`, and how runs say where memory runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_memory_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Program, TellsMemoryAlone) {
  const std::string spec =
      Write("gpt.textproto",
            "model { gpt { layers: 3 hidden: 64 heads: 4 sequence: 32 } }\n"
            "train { steps: 1000 micro_batch: 4 precision { parameter: BF16 } }\n"
            "parallel { dp: 4 sharding: ZERO_2 }\nfabric { simulated { cluster: \"star-a100\" } }\n");
  ASSERT_EQ(Run(StrCat("memory ", spec, " --out=", At("memory"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits (A100-80GB SXM: 84,986,036,224 bytes)"));
  EXPECT_THAT(out_, HasSubstr("each of ranks 0 to 3"));
  EXPECT_THAT(out_, HasSubstr("12 psi / 4"));
  EXPECT_THAT(out_, HasSubstr("34 + 5 a s / h"));
  const nlohmann::json memory = nlohmann::json::parse(ReadAll(At("memory/memory.json")));
  EXPECT_EQ(memory["fits"], true);
  EXPECT_EQ(memory["world_size"], 4);
  EXPECT_LE(memory["ranks"][0]["steps_replayed"], 4);
  EXPECT_EQ(memory["model_states"][1]["formula_bytes"], memory["parameters"].get<double>() * 2 / 4);
  ASSERT_EQ(Run(StrCat("run ", At("memory"), "/spec.textproto --quiet --set=train.steps=5 --out=", At("run"))), 0)
      << err_;
  EXPECT_EQ(Report(At("memory"))["ranks"], Report(At("run"))["ranks"]);
  EXPECT_EQ(Report(At("memory"))["steps"].size(), 0u);
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=parallel.dp=zwei")), 2);
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=fabric.simulated.cluster=moon")), 2);
  EXPECT_THAT(err_, HasSubstr("moon"));
}

TEST_F(Program, TellsWhatWouldFit) {
  const std::string spec = Write("big.textproto",
                                 "model { preset: \"gpt2-1.5b\" }\n"
                                 "train { steps: 1 micro_batch: 32 }\n"
                                 "fabric { simulated { cluster: \"dgx-a100\" } }\nparallel { dp: 2 }\n");
  EXPECT_EQ(Run(StrCat("memory ", spec)), 3);
  const size_t begin = out_.find("It would fit with");
  ASSERT_NE(begin, std::string::npos) << out_;
  std::istringstream lines(out_.substr(begin));
  std::string line;
  std::vector<std::string> remedies;
  while (std::getline(lines, line)) {
    if (line.find("--set=") != std::string::npos) remedies.push_back(line.substr(0, line.find("  ")));
  }
  ASSERT_FALSE(remedies.empty()) << out_;
  EXPECT_LE(remedies.size(), 3U);
  EXPECT_THAT(out_, HasSubstr("(as it is, with enough memory)"));
  for (const std::string& remedy : remedies) {
    EXPECT_EQ(Run(StrCat("memory ", spec, " ", remedy)), 0) << remedy << err_;
    EXPECT_THAT(out_, Not(HasSubstr("It would fit with")));
  }
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=memory.budget_mib=1")), 3);
  EXPECT_THAT(out_, HasSubstr("makes it fit"));
}

TEST_F(Program, TellsHowMemoryRunsOut) {
  const std::string spec = Write("big.textproto",
                                 "model { preset: \"gpt2-1.5b\" }\n"
                                 "train { steps: 1 micro_batch: 64 }\n"
                                 "fabric { simulated { cluster: \"star-a100\" } }\nparallel { dp: 2 }\n");
  EXPECT_EQ(Run(StrCat("memory ", spec, " --out=", At("memory"))), 3);
  EXPECT_THAT(out_, HasSubstr("It does not fit"));
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("run"))), 3);
  EXPECT_THAT(err_, HasSubstr("out of memory"));
  EXPECT_THAT(out_, HasSubstr("`twofold memory` with the same spec and options lists the cheapest changes"));
  EXPECT_EQ(Report(At("memory"))["message"], Report(At("run"))["message"]);
  EXPECT_EQ(Report(At("memory"))["outcome"], "OUT_OF_MEMORY");
  EXPECT_EQ(Report(At("memory"))["ranks"][0], Report(At("run"))["ranks"][0]);
  const nlohmann::json memory = nlohmann::json::parse(ReadAll(At("memory/memory.json")));
  EXPECT_GT(memory["ranks"][0]["reserved_bytes"], int64_t{80'000'000'000}) << "what it would need";
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=memory.budget_mib=1 --set=train.micro_batch=1")), 3);
  EXPECT_THAT(err_, HasSubstr("rank 0: out of memory: asked for"));
  EXPECT_THAT(err_, Not(HasSubstr("by category")));  // it holds nothing yet
}

// FSDP's shards are F32 alone: 2 bytes a parameter of the shard less; its loss keeps 4 more a logit.
TEST_F(Program, TellsWhatOtherFrameworksTake) {
  const std::string spec =
      Write("fsdp.textproto",
            "framework: PYTORCH_EAGER\nmodel { gpt { layers: 3 hidden: 64 heads: 4 sequence: 32 vocab: 512 } }\n"
            "train { steps: 3 micro_batch: 4 precision { parameter: BF16 gradient: F32 } }\n"
            "parallel { dp: 4 sharding: ZERO_3 }\nfabric { simulated { cluster: \"star-a100\" } }\n");
  ASSERT_EQ(Run(StrCat("memory ", spec, " --out=", At("memory"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits under PYTORCH_EAGER"));
  const nlohmann::json memory = nlohmann::json::parse(ReadAll(At("memory/memory.json"))), rank = memory["ranks"][0],
                       of = rank["framework"];
  const int64_t shard = rank["parameters"].get<int64_t>() / 4, logits = 4 * 32 * 512;
  EXPECT_EQ(of["allocated_bytes"], rank["peak_bytes"].get<int64_t>() - 2 * shard + 4 * logits);
  EXPECT_EQ(of["device_bytes"], of["reserved_bytes"].get<int64_t>() + ((1573 + 400) << 20))
      << "the context and one communicator";
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --notes=full --out=", At("run"))), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("device memory under PYTORCH_EAGER"), Not(HasSubstr("peak memory"))));
  EXPECT_THAT(out_, HasSubstr("host times are assumed, not calibrated"));
  EXPECT_EQ(Report(At("run"))["framework"], "PYTORCH_EAGER");
  EXPECT_EQ(Report(At("run"))["ranks"][3]["framework"]["device_bytes"], of["device_bytes"]);
  EXPECT_EQ(Report(At("run"))["ranks"][0]["peak_bytes"], rank["peak_bytes"]);
  const std::string tight = StrCat("run ", spec, " --quiet --set=memory.budget_mib=1024 --out=", At("run"));
  EXPECT_EQ(Run(tight), 3);
  EXPECT_THAT(err_, HasSubstr("under PYTORCH_EAGER its process takes at least"));
  EXPECT_EQ(Report(At("run"))["steps"].size(), 0u);
  ASSERT_EQ(Run(tight + " --set=memory.assume_fits=true"), 0) << err_;
  EXPECT_EQ(Report(At("run"))["missing_memory_bytes"], of["least_device_bytes"].get<int64_t>() - (int64_t{1024} << 20));
}

TEST_F(Program, GoesOnBeyondMemoryIfAssumedToFit) {
  const std::string job = StrCat("run ",
                                 Write("big.textproto",
                                       "model { gpt { layers: 3 hidden: 64 heads: 4 sequence: 32 } }\n"
                                       "train { steps: 2 }\nfabric { simulated { cluster: \"star-a100\" } }\n"),
                                 " --quiet --out=", At("run"));
  ASSERT_EQ(Run(job), 0) << err_;
  const nlohmann::json fits = Report(At("run"));
  const int64_t reserved = fits["ranks"][0]["reserved_bytes"];
  EXPECT_EQ(Run(job + " --set=memory.budget_mib=20"), 3);
  ASSERT_EQ(Run(job + " --set=memory.budget_mib=20 --set=memory.assume_fits=true"), 0) << err_;
  EXPECT_EQ(Report(At("run"))["median_step_seconds"], fits["median_step_seconds"]);
  EXPECT_GT(Report(At("run"))["missing_memory_bytes"], 0);
  ASSERT_EQ(Run(job + " --set=memory.assume_fits=true"), 0) << err_;
  EXPECT_EQ(Report(At("run"))["missing_memory_bytes"], 0);
  EXPECT_EQ(Report(At("run"))["ranks"][0]["reserved_bytes"], reserved);
}

// Of a machine's CPU, whose memory all ranks share, it is known; of hosts that a launcher will name, or a GPU
// elsewhere, not.
TEST_F(Program, TellsWhetherMemoryFitsAsFarAsIsKnown) {
  const std::string small = StrCat("memory ", Write("small.textproto", kSmall), " --out=", At("memory"));
  const std::string huge =
      StrCat("memory ", Write("huge.textproto", "model { preset: \"gpt3-175b\" }\ntrain { steps: 1 micro_batch: 1 }\n"),
             " --out=", At("memory"));
  const auto fits = [this] { return nlohmann::json::parse(ReadAll(At("memory/memory.json")))["fits"]; };
  for (const char* fabric :
       {" --fabric=in_memory", " --fabric=simulated", " --fabric=in_memory --set=device=EMULATED"}) {
    EXPECT_EQ(Run(small + fabric), 0) << err_;
    EXPECT_THAT(out_, ::testing::ContainsRegex(
                          "It fits this machine: its 2 ranks reserve [0-9,]+ bytes, and this machine has [0-9,]+"))
        << fabric;
    EXPECT_EQ(fits(), true);
    EXPECT_EQ(Run(huge + fabric), 3) << fabric;
    EXPECT_THAT(out_, HasSubstr("It does not fit this machine: its rank reserves 2,"));
    EXPECT_THAT(err_, HasSubstr("OUT_OF_MEMORY: its rank reserves "));
    EXPECT_EQ(fits(), false);
    EXPECT_EQ(Report(At("memory"))["outcome"], "OUT_OF_MEMORY");
  }
  EXPECT_EQ(Run(huge + " --fabric=in_memory --set=memory.budget_mib=1e9"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits (memory.budget_mib: 1,048,576,000,000,000 bytes)"));
  EXPECT_EQ(Run(small + " --fabric=mpi"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits if all ranks are on this machine: its 2 ranks reserve "));
  EXPECT_EQ(Run(huge + " --fabric=mpi"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It is not known whether it fits: its rank reserves 2,"));
  EXPECT_EQ(fits(), nullptr);
  ASSERT_EQ(Run("list devices"), 0);
  if (out_.find("not available") == std::string::npos) return;
  EXPECT_EQ(Run(huge + " --fabric=in_memory --set=device=CUDA"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It is not known whether it fits: "));
  EXPECT_THAT(out_, HasSubstr("; set memory.budget_mib, or a cluster with --fabric=simulated"));
}

// What `memory` says of ranks that share this machine, a simulated run of them says, too: of one rank, and of many
// small ones that are folded or not.
TEST_F(Program, PredictsThatThisMachinesMemoryRunsOut) {
  const std::string huge =
      Write("huge.textproto",
            "model { preset: \"gpt3-175b\" }\ntrain { steps: 1 micro_batch: 1 }\nfabric { simulated {} }\n");
  const std::string many = Write("many.textproto",
                                 "model { preset: \"gpt2-1.5b\" }\ntrain { steps: 1 micro_batch: 1 }\nparallel { dp: "
                                 "1024 }\nfabric { simulated {} }\n");
  const std::pair<std::string, std::string> kRuns[] = {
      {huge,
       "rank 0: out of this machine's memory \\([0-9,]+ bytes for 1 rank\\): asked for [0-9,]+ bytes of .* with "
       "[0-9,]+ "
       "live"},
      {many, "rank 0: out of this machine's memory \\([0-9,]+ bytes for 1024 ranks\\): asked for"},
      {many + " --set=fabric.simulated.folding=OFF",
       "rank [0-9]+: out of this machine's memory \\([0-9,]+ bytes for 1024 ranks\\): asked for"}};
  for (const auto& [arguments, message] : kRuns) {
    EXPECT_EQ(Run(StrCat("memory ", arguments)), 3) << arguments;
    EXPECT_THAT(err_, HasSubstr("and this machine has ")) << arguments;
    EXPECT_EQ(Run(StrCat("run --quiet --out=", At("run"), " ", arguments)), 3) << arguments;
    EXPECT_EQ(Report(At("run"))["outcome"], "OUT_OF_MEMORY") << arguments;
    EXPECT_THAT(Report(At("run"))["message"].get<std::string>(), ::testing::ContainsRegex(message)) << arguments;
  }
  for (const char* command : {"memory", "run --quiet"}) {
    EXPECT_EQ(Run(StrCat(command, " --out=", At("run"), " --set=memory.budget_mib=1e9 ", huge)), 0) << err_;
  }
}

// What calibration writes is what the simulated fabric reads, and kernels of a small model are among it.

}  // namespace program_memory_test
}  // namespace twofold
