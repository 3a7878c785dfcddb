// `twofold bench`, and which library and algorithm ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_bench_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(Program, BenchesThreadsAndChecksWhatTheyHold) {
  ASSERT_EQ(Run("bench all_reduce --ranks=3 -b 8 -e 64K -f 8 -n 2 -w 1"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("all_reduce on in_memory: 3 ranks, measured"));
  EXPECT_THAT(out_, HasSubstr("#wrong"));
  EXPECT_THAT(out_, HasSubstr("\n       32768          8192     float     sum      -1 "));
  EXPECT_THAT(out_, HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(err_, IsEmpty());
  for (const char* operation :
       {"all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send_recv"}) {
    ASSERT_EQ(Run(StrCat("bench ", operation, " --json -d bfloat16 -b 64 -e 4K -f 8 -n 2 -w 1 --out=", At("rows.csv"))),
              0)
        << err_;
    const nlohmann::json json = nlohmann::json::parse(out_);
    EXPECT_EQ(json["out_of_bounds"], 0) << operation;
    ASSERT_EQ(json["results"].size(), 3u) << operation;
    EXPECT_EQ(json["results"][2]["size"], 4096) << operation;
    const std::string csv = ReadAll(At("rows.csv"));
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4) << csv;
  }
}

// Ring: 2 (N - 1) rounds of 2 us, and 2 (N - 1)/N of the bytes at 25 GB/s (the catalogue's star-a100).
TEST_F(Program, BenchesASimulatedRingByItsClosedForm) {
  constexpr char kRing[] =
      "bench all_reduce --json --fabric=simulated --cluster=star-a100 --algorithm=ring -b 1K -e 1G -f 32";
  for (int n : {2, 3, 8, 100}) {
    ASSERT_EQ(Run(StrCat(kRing, " --ranks=", n)), 0) << err_;
    const nlohmann::json json = nlohmann::json::parse(out_);
    EXPECT_EQ(json["predicted"], true);
    EXPECT_TRUE(json["out_of_bounds"].is_null());
    ASSERT_EQ(json["results"].size(), 5u);
    for (const nlohmann::json& row : json["results"]) {
      const double bytes = row["size"], share = 2.0 * (n - 1) / n;
      const double seconds = 2 * (n - 1) * 2e-6 + share * bytes / 25e9, busbw = share * bytes / seconds / 1e9;
      EXPECT_NEAR(row["in_place"]["time"].get<double>(), seconds * 1e6, seconds * 1e6 * 1e-6)
          << n << " ranks, " << bytes;
      EXPECT_NEAR(row["in_place"]["bus_bw"].get<double>(), busbw, busbw * 1e-6) << n << " ranks, " << bytes;
    }
  }
}

TEST_F(Program, BenchesNoMoreThanADeviceHolds) {
  EXPECT_EQ(Run("bench all_reduce --fabric=simulated --cluster=star-a100 -b 128G -e 128G"), 3);
  EXPECT_THAT(err_, HasSubstr("rank 0: out of memory: asked for 137,438,953,472 bytes of communication"));
}

TEST_F(Program, BenchesTheSameBytesTwice) {
  for (const char* operation : {"all_reduce", "broadcast", "gather", "all_to_all", "send_recv"}) {
    const std::string command = StrCat("bench ", operation, " --fabric=simulated --cluster=star-a100 --ranks=16 -e 1G");
    ASSERT_EQ(Run(command), 0) << err_;
    const std::string first = out_;
    ASSERT_EQ(Run(command), 0) << err_;
    EXPECT_EQ(out_, first);
    EXPECT_THAT(first, HasSubstr("\n  1073741824 "));
  }
}

// Whatever the algorithm, nothing goes through a rank's link of 25 GB/s faster than that.
TEST_F(Program, BenchesNoFasterThanTheLink) {
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
                                "scatter", "all_to_all", "send_recv"}) {
    const std::string command = StrCat("bench ", operation, " --json --fabric=simulated --cluster=star-a100");
    ASSERT_EQ(Run(StrCat(command, " --ranks=12 -b 1G -e 1G")), 0) << err_;
    const nlohmann::json row = nlohmann::json::parse(out_)["results"].at(0);
    for (const char* form : {"out_of_place", "in_place"}) {
      if (row[form].is_null()) continue;
      EXPECT_LE(row[form]["bus_bw"].get<double>(), 25.0 * (1 + 1e-9)) << operation;
      EXPECT_GE(row[form]["bus_bw"].get<double>(), 12) << operation;
    }
  }
}

// 20 broadcasts over 8 H100: each takes 5 us and seven hops of 0.73 us, which those after the first hide; a reduction
// hides as much, an all-reduce nothing.
TEST_F(Program, SuccessiveBroadcastsHideTheirHops) {
  const auto time = [&](const std::string& more) {
    EXPECT_EQ(Run(StrCat("bench ", more, " --json --fabric=simulated --cluster=dgx-h100 --ranks=8 -b 8 -e 8")), 0)
        << err_;
    return nlohmann::json::parse(out_)["results"].at(0)["in_place"]["time"].get<double>();
  };
  const double alone = 5.0 + 7 * 0.73;
  EXPECT_NEAR(time("broadcast --wait"), alone, 0.02);
  EXPECT_NEAR(time("broadcast"), (alone + 19 * 5.0) / 20, 0.02);
  EXPECT_NEAR(time("broadcast -n 2"), (alone + 5.0) / 2, 0.02);
  EXPECT_NEAR(time("reduce"), (alone + 19 * 5.0) / 20, 0.02);
  EXPECT_DOUBLE_EQ(time("all_reduce -n 20"), time("all_reduce --wait"));
}

// One rank a node: a message has two channels of 14 GB/s between nodes; in one node, 16 and more of NVLink.
TEST_F(Program, BenchesSoManyRanksPerNode) {
  const auto bandwidth = [&](const std::string& more) {
    EXPECT_EQ(Run(StrCat("bench send_recv --json --fabric=simulated --cluster=dgx-h100 --ranks=10 -b 1G -e 1G ", more)),
              0)
        << err_;
    return nlohmann::json::parse(out_)["results"].at(0)["out_of_place"]["bus_bw"].get<double>();
  };
  EXPECT_NEAR(bandwidth("--ranks-per-node=1"), 28, 0.2);
  EXPECT_NEAR(bandwidth("--ranks-per-node=5"), 0.96 * 50, 0.2);  // five NICs have more channels: four a message
}

TEST_F(Program, RefusesABenchByTheOption) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"", "OPERATION"},
      {"all_sing", "all_sing"},
      {"all_reduce -b 12Q", "--minbytes"},
      {"all_reduce -e 1", "--maxbytes"},
      {"all_reduce -f 1", "--stepfactor"},
      {"all_reduce -n x", "--iters"},
      {"all_reduce --op=xor", "--op"},
      {"all_reduce --protocol=LL128", "--protocol"},
      {"all_reduce --fabric=telepathy", "in_memory"},
      {"all_reduce --cluster=star-a100", "--cluster"},
      {"gather --fabric=simulated --algorithm=ring", "--algorithm"},
      {"all_reduce --fabrik=simulated", "unknown option --fabrik; did you mean --fabric?"},
      {"all_reduce -g 2", "-g 2: an option of nccl-tests that does not exist here; use --ranks"},
      {"all_reduce -t 2", "-t 2: an option of nccl-tests"},
      {"all_reduce -z 1", "-z 1: an option of nccl-tests that does not exist here; use --wait"},
      {"all_reduce --ranks-per-node=2", "--ranks-per-node=2: is only for simulated clusters"},
      {"all_reduce --fabric=simulated --cluster=dgx-h100 --ranks-per-node=9",
       "--ranks-per-node=9: a node of cluster dgx-h100 has 8 devices; use 1 to 8"},
      {"all_reduce --fabric=simulated --cluster=dgx-h100 --ranks-per-node=2 --nodes=2 --ranks=5",
       "--ranks=5: cluster dgx-h100 with --nodes=2 has room for 4"},
      {"all_reduce --ranks=100000000", "--ranks must be from 1 to 1048576 (got 100000000)"}};
  for (const auto& [arguments, name] : kWrong) {
    EXPECT_EQ(Run(StrCat("bench ", arguments)), 2) << arguments;
    EXPECT_THAT(err_, HasSubstr(name)) << arguments;
    EXPECT_THAT(out_, IsEmpty()) << arguments;
  }
}

// Where an allocation fails, what was done before is shown.
TEST_F(Program, ReportsABenchThatRunsOutOfMemory) {
  const std::string command = StrCat("ulimit -v 16000000 && ", TWOFOLD_PROGRAM,
                                     " bench all_reduce -b 1K -e 32G -f 33554432 >", At("stdout"), " 2>", At("stderr"));
  const int status = RunShell(command);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("out of memory: asked for 34,359,738,368 bytes"));
  EXPECT_THAT(ReadAll(At("stdout")), HasSubstr("\n        1024 "));
}

// nvidia-smi's matrix has no rates: the NICs' is an option, and is what bounds a large message between nodes.
TEST_F(Program, AnImportedMatrixTakesTheRateOfItsNics) {
  const std::string import =
      StrCat("topology import tests/data/topologies/dgx-h100.smi.txt --device=dgx-h100 --out=", At("mine.textproto"),
             " --nodes=2");
  ASSERT_EQ(Run(import), 2);
  EXPECT_THAT(err_, HasSubstr("does not state the speed of its NICs; say it, as in --nic-gbits=400"));
  const auto seconds = [&](const std::string& rate) {
    EXPECT_EQ(Run(StrCat(import, " --nic-gbits=", rate)), 0) << err_;
    EXPECT_EQ(Run(StrCat("bench all_reduce --nodes=2 -b 1G -e 1G --json --fabric=simulated --cluster=",
                         At("mine.textproto"))),
              0)
        << err_;
    return nlohmann::json::parse(out_)["results"][0]["in_place"]["time"].get<double>();
  };
  const double at_100 = seconds("100"), at_200 = seconds("200");
  EXPECT_GT(at_100, 1.5 * at_200);
  // The option goes before what the file states: 100 Gb/s.
  const std::string known = "topology import tests/data/topologies/dgx-1v.nccl.xml --nodes=2 --out=-";
  ASSERT_EQ(Run(known), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("link_gbytes_per_second: 12.5\n"));
  ASSERT_EQ(Run(StrCat(known, " --nic-gbits=400")), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("link_gbytes_per_second: 50\n"));
}

// Nor does it have that of PCIe, which an option, another cluster or the GPUs' name says.
TEST_F(Program, AnImportedMatrixTakesTheRateOfPcie) {
  const std::string matrix = "tests/data/topologies/pcie-4.smi.txt";
  const std::string gpus = "GPU 0: NVIDIA H100 PCIe (UUID: GPU-0)\nGPU 1: NVIDIA H100 PCIe (UUID: GPU-1)\n";
  const std::string named = Write("named.txt", gpus + ReadAll(matrix));
  ASSERT_EQ(Run("topology import " + named), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("for NVIDIA H100 PCIe assumed, in GB/s each way: 25 per NVLink, 50 per PCIe link"));
  EXPECT_THAT(err_, HasSubstr("device figures are those of dgx-h100"));
  EXPECT_THAT(err_, HasSubstr("constants of generation hopper"));
  ASSERT_EQ(Run("topology import " + matrix), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("put what `nvidia-smi -L` prints above the matrix"));
  EXPECT_THAT(out_, Not(HasSubstr("pcie_gbytes_per_second")));
  ASSERT_EQ(Run("topology import " + matrix + " --device=dgx-h100"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("pcie_gbytes_per_second: 50\n"));
  const auto seconds = [&](const std::string& rate) {
    EXPECT_EQ(Run(StrCat("topology import ", matrix, " --device=dgx-h100 --out=", At("mine.textproto"), rate)), 0)
        << err_;
    EXPECT_EQ(Run("bench all_reduce -b 1G -e 1G --json --fabric=simulated --cluster=" + At("mine.textproto")), 0)
        << err_;
    return nlohmann::json::parse(out_)["results"][0]["in_place"]["time"].get<double>();
  };
  EXPECT_GT(seconds(" --pcie-gbytes=10"), 1.5 * seconds(""));
  EXPECT_EQ(Run("topology import tests/data/topologies/pcie-4.nccl.xml --pcie-gbytes=50"), 2);
  EXPECT_THAT(err_, HasSubstr("--pcie-gbytes=50: tests/data/topologies/pcie-4.nccl.xml states the rates"));
  EXPECT_EQ(Run("topology import " + matrix + " --pcie-gbytes=0"), 2);
  EXPECT_THAT(err_, HasSubstr("--pcie-gbytes must be above 0"));
}

TEST_F(Program, AnImportedDgx1vIsTheCatalogues) {
  ASSERT_EQ(Run(StrCat("topology import tests/data/topologies/dgx-1v.nccl.xml --out=", At("mine.textproto"))), 0)
      << err_;
  const auto bench = [&](const std::string& cluster, const std::string& more) {
    EXPECT_EQ(Run(StrCat("bench ", more, " -b 1K -e 1G -f 32 --json --fabric=simulated --cluster=", cluster)), 0)
        << err_;
    return nlohmann::json::parse(out_);
  };
  // Between nodes the file says nothing: the catalogue's network joins them.
  std::string several = ReadAll("topologies/catalogue/dgx-1v.textproto");
  const size_t node = several.find("  node {"), network = several.find("  network {");
  ASSERT_NE(node, std::string::npos);
  several.replace(
      node, network - node,
      StrCat("  node { file: \"", fs::absolute("tests/data/topologies/dgx-1v.nccl.xml").string(), "\" }\n"));
  const std::string joined = Write("joined.textproto", several);
  for (const char* operation : {"all_reduce", "all_gather", "all_to_all", "broadcast --algorithm=ring"}) {
    const nlohmann::json own = bench(At("mine.textproto"), operation),
                         theirs = bench("dgx-1v", StrCat(operation, " --nodes=1"));
    EXPECT_EQ(own["library"], "nccl");
    EXPECT_EQ(own["results"], theirs["results"]) << operation;
    EXPECT_EQ(bench(joined, StrCat(operation, " --nodes=3"))["results"],
              bench("dgx-1v", StrCat(operation, " --nodes=3"))["results"])
        << operation;
  }
  const nlohmann::json rings = bench("dgx-1v", "all_reduce --nodes=1 --algorithm=ring --protocol=Simple");
  // Six NVLinks of 25 GB/s, of which rings reach 77.5 %, less 3 % for latency and what is copied alone.
  EXPECT_NEAR(rings["results"].back()["in_place"]["bus_bw"], 0.775 * 150 * 0.975, 1);
  EXPECT_EQ(rings["results"].back()["algorithm"], "ring");
}

// report.json and what is printed name library, algorithm and protocol.
TEST_F(Program, ARunSaysWhatRan) {
  const std::string spec =
      Write("gpt.textproto",
            "model { gpt { layers: 2 hidden: 64 heads: 4 sequence: 32 } }\ntrain { steps: 2 micro_batch: 1 }\n"
            "parallel { dp: 16 }\nfabric { simulated { cluster: \"dgx-h100\" } }\n");
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("run"))), 0) << err_;
  bool seen = false;
  const nlohmann::json report = Report(At("run"));
  for (const nlohmann::json& c : report["collectives"]) {
    EXPECT_EQ(c["library"], "nccl") << c;
    EXPECT_NE(c["algorithm"], "") << c;
    EXPECT_NE(c["protocol"], "") << c;
    if (c["operation"] != "all_reduce") continue;
    seen = true;
    EXPECT_THAT(out_, HasSubstr(StrCat("library nccl"))) << c;
    EXPECT_THAT(out_, HasSubstr(StrCat(c["algorithm"].get<std::string>(), "; ", c["protocol"].get<std::string>())));
  }
  EXPECT_TRUE(seen) << report["collectives"];
}

}  // namespace program_bench_test
}  // namespace twofold
