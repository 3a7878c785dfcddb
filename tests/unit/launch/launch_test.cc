// Who a process is, by what launchers put into its environment.
#include "backends/launch/launch.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

namespace twofold {
namespace launch_test {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

Launch In(const Environment& environment) {
  return LaunchFrom([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

Environment operator+(Environment a, const Environment& b) {
  for (const auto& [name, value] : b) {
    if (value == "(unset)")
      a.erase(name);
    else
      a[name] = value;
  }
  return a;
}

// As the launchers set them, on the second of two nodes with two processes each, rank 3.
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "3"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"OMPI_MCA_ess_base_jobid", "287244289"},
                             {"OMPI_MCA_orte_precondition_transports", "cbae-a7fc"},
                             {"PMIX_RANK", "3"}};
const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29400"},
                               {"TORCHELASTIC_RUN_ID", "nightly"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kVariables = {{"RANK", "3"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "10.0.0.1"},
                                {"MASTER_PORT", "29500"}};
const Environment kBatch = {{"SLURM_JOB_ID", "4711"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "0"},
                            {"SLURM_NNODES", "2"},
                            {"SLURM_JOB_NODELIST", "node[003-004]"}};
const Environment kSrun = kBatch + Environment{{"SLURM_PROCID", "3"},
                                               {"SLURM_LOCALID", "1"},
                                               {"SLURM_NODEID", "1"},
                                               {"SLURM_STEP_ID", "2"},
                                               {"SLURM_STEP_NUM_TASKS", "4"},
                                               {"SLURM_STEP_NUM_NODES", "2"},
                                               {"SLURM_STEP_NODELIST", "node[003-004]"}};
const Environment kSrunPmix = kSrun + Environment{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.4711.2"}};
const Environment kSrunPmi = kSrun + Environment{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
const Environment kMpiexec = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

struct Case {
  const char* name;
  Environment environment;
  Launch launch;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Launchers : public ::testing::TestWithParam<Case> {};

TEST_P(Launchers, AreUnderstood) {
  const Launch got = In(GetParam().environment), &want = GetParam().launch;
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.launched, want.launched);
  EXPECT_EQ(got.by_mpi, want.by_mpi);
  EXPECT_EQ(got.launcher, want.launcher);
  EXPECT_EQ(got.rank, want.rank);
  EXPECT_EQ(got.size, want.size);
  EXPECT_EQ(got.local_rank, want.local_rank);
  EXPECT_EQ(got.local_size, want.local_size);
  EXPECT_EQ(got.node, want.node);
  EXPECT_EQ(got.nodes, want.nodes);
  EXPECT_EQ(got.master_address, want.master_address);
  EXPECT_EQ(got.master_port, want.master_port);
  EXPECT_EQ(got.token, want.token);
}

const Launch kAlone = {.master_address = ""};
Launch Third(const char* launcher, bool by_mpi, int local_size, int node, int nodes, const char* address, int port,
             const char* token) {
  return {.launched = true,
          .by_mpi = by_mpi,
          .launcher = launcher,
          .rank = 3,
          .size = 4,
          .local_rank = 1,
          .local_size = local_size,
          .node = node,
          .nodes = nodes,
          .master_address = address,
          .master_port = port,
          .token = token};
}
Launch With(Launch launch, const std::function<void(Launch&)>& change) {
  change(launch);
  return launch;
}

INSTANTIATE_TEST_SUITE_P(
    One, Launchers,
    ::testing::Values(
        Case{"Nothing", {}, kAlone}, Case{"ABatchScript", kBatch, kAlone},
        Case{"AnInteractiveShellOfOneTask",
             kBatch + Environment{{"SLURM_STEP_ID", "4294967290"},
                                  {"SLURM_STEP_NUM_TASKS", "1"},
                                  {"SLURM_NTASKS", "1"},
                                  {"PMIX_RANK", "0"}},
             kAlone},
        Case{"PmixRankAlone", {{"PMIX_RANK", "0"}}, kAlone},
        Case{"Torchrun", kTorchrun, Third("torchrun", false, 2, 1, 2, "node1", 29401, "torchrun nightly")},
        Case{"TorchrunWhoseStoreIsRank0s", kTorchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "False"}},
             Third("torchrun", false, 2, 1, 2, "node1", 29400, "torchrun nightly")},
        Case{"TorchrunInEachTaskOfSrun", kSrunPmix + kTorchrun + Environment{{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}},
             Third("torchrun", false, 2, 1, 2, "node1", 29401, "torchrun nightly")},
        Case{"TwofoldLaunch",
             kVariables + Environment{{"TWOFOLD_LAUNCHER", "twofold"},
                                      {"TWOFOLD_JOB_TOKEN", "a1b2"},
                                      {"NODE_RANK", "1"},
                                      {"NNODES", "2"}},
             Third("twofold launch", false, 2, 1, 2, "10.0.0.1", 29500, "a1b2")},
        Case{"TwofoldLaunchInEachTaskOfSrun",
             kSrunPmi + kVariables + Environment{{"TWOFOLD_LAUNCHER", "twofold"}, {"PMI_RANK", "1"}},
             Third("twofold launch", false, 2, -1, 0, "10.0.0.1", 29500, "slurm 4711")},
        Case{"Mpirun", kMpirun, Third("Open MPI's mpirun", true, 2, -1, 0, "", 14383, "mpirun cbae-a7fc")},
        Case{"MpirunThatTellsNoSecret", kMpirun + Environment{{"OMPI_MCA_orte_precondition_transports", ""}},
             Third("Open MPI's mpirun", true, 2, -1, 0, "", 14383, "")},
        Case{"MpirunOnOneHost",
             kMpirun + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
             Third("Open MPI's mpirun", true, 4, -1, 0, "127.0.0.1", 14383, "mpirun cbae-a7fc")},
        Case{"MpirunThatHandsOnMaster", kMpirun + Environment{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1234"}},
             Third("Open MPI's mpirun", true, 2, -1, 0, "node1", 1234, "mpirun cbae-a7fc")},
        Case{"MpirunAndVariablesThatSayTheSame", kMpirun + kVariables,
             Third("Open MPI's mpirun", true, 2, -1, 0, "10.0.0.1", 29500, "mpirun cbae-a7fc")},
        Case{"SrunWithPmix", kSrunPmix,
             Third("Slurm's srun with PMIx", true, 0, 1, 2, "node003", 14713, "slurm 4711.2")},
        Case{"SrunWithPmi", kSrunPmi, Third("a launcher with PMI", true, 0, 1, 2, "node003", 14713, "slurm 4711.2")},
        Case{"Mpiexec", kMpiexec, Third("a launcher with PMI", true, 2, -1, 0, "", 0, "")},
        Case{"PlainSrun", kSrun, Third("Slurm's srun", false, 0, 1, 2, "node003", 14713, "slurm 4711.2")},
        Case{"PlainSrunWithMasterByTheScript",
             kSrun +
                 Environment{{"MASTER_ADDR", "ib-node003"}, {"MASTER_PORT", "23456"}, {"TWOFOLD_JOB_TOKEN", "secret"}},
             Third("Slurm's srun", false, 0, 1, 2, "ib-node003", 23456, "secret")},
        Case{"VariablesBeforePlainSrun", kSrun + kVariables,
             Third("RANK and WORLD_SIZE", false, 2, -1, 0, "10.0.0.1", 29500, "slurm 4711")},
        Case{"Variables", kVariables, Third("RANK and WORLD_SIZE", false, 2, -1, 0, "10.0.0.1", 29500, "")},
        Case{"VariablesWithoutLocalOnes",
             kVariables + Environment{{"LOCAL_RANK", "(unset)"}, {"LOCAL_WORLD_SIZE", "(unset)"}},
             With(Third("RANK and WORLD_SIZE", false, 0, -1, 0, "10.0.0.1", 29500, ""),
                  [](Launch& l) { l.local_rank = -1; })},
        Case{"RankByNode", kVariables + Environment{{"RANK", "(unset)"}, {"NODE_RANK", "1"}, {"NNODES", "2"}},
             Third("RANK and WORLD_SIZE", false, 2, 1, 2, "10.0.0.1", 29500, "")},
        Case{"EmptyMeansUnset", kVariables + Environment{{"NODE_RANK", ""}, {"TWOFOLD_JOB_TOKEN", ""}},
             Third("RANK and WORLD_SIZE", false, 2, -1, 0, "10.0.0.1", 29500, "")}),
    [](const auto& info) { return std::string(info.param.name); });

struct WrongCase {
  const char* name;
  Environment environment;
  std::vector<std::string> says;
};
void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongVariables : public ::testing::TestWithParam<WrongCase> {};

TEST_P(WrongVariables, AreNamed) {
  const Launch launch = In(GetParam().environment);
  for (const std::string& part : GetParam().says) EXPECT_THAT(launch.error, HasSubstr(part));
  EXPECT_FALSE(launch.launched) << "it counts as alone";
  EXPECT_EQ(launch.size, 1);
}

INSTANTIATE_TEST_SUITE_P(
    One, WrongVariables,
    ::testing::Values(
        WrongCase{"NoWorldSize", {{"RANK", "1"}}, {"RANK is set, but WORLD_SIZE is not", "number of processes"}},
        WrongCase{"NoRank",
                  {{"WORLD_SIZE", "4"}},
                  {"WORLD_SIZE=4 is set, but RANK is not", "this process's rank, 0 to 3", "NODE_RANK"}},
        WrongCase{"NoNumber",
                  kVariables + Environment{{"RANK", "three"}},
                  {"RANK must be a whole number of at least 0 (got \"three\")"}},
        WrongCase{"Fraction",
                  kVariables + Environment{{"WORLD_SIZE", "4.0"}},
                  {"WORLD_SIZE must be a whole number of at least 1 (got \"4.0\")"}},
        WrongCase{"NegativeRank",
                  kVariables + Environment{{"RANK", "-1"}},
                  {"RANK must be a whole number of at least 0 (got \"-1\")"}},
        WrongCase{"NoProcesses",
                  kVariables + Environment{{"WORLD_SIZE", "0"}},
                  {"WORLD_SIZE must be a whole number of at least 1 (got \"0\")"}},
        WrongCase{"RankOutOfRange",
                  kVariables + Environment{{"RANK", "4"}},
                  {"RANK=4, but WORLD_SIZE=4; RANK must be 0 to 3"}},
        WrongCase{"WorldSizeCountsNodes",
                  kVariables + Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "8"}},
                  {"WORLD_SIZE=2, but LOCAL_WORLD_SIZE=8", "must count the processes of all nodes"}},
        WrongCase{"FewerProcessesThanNodes",
                  kVariables + Environment{{"NNODES", "8"}},
                  {"WORLD_SIZE=4, but NNODES=8", "must count the processes of all nodes"}},
        WrongCase{"OneNodeWithoutAll",
                  kVariables + Environment{{"NNODES", "1"}},
                  {"NNODES=1", "LOCAL_WORLD_SIZE=2", "WORLD_SIZE=4"}},
        WrongCase{"LocalRankOutOfRange",
                  kVariables + Environment{{"LOCAL_RANK", "2"}},
                  {"LOCAL_RANK=2, but LOCAL_WORLD_SIZE=2; LOCAL_RANK must be 0 to 1"}},
        WrongCase{"LocalRankAboveRank", kVariables + Environment{{"RANK", "0"}}, {"LOCAL_RANK=1, but RANK=0"}},
        WrongCase{"NodeOutOfRange",
                  kTorchrun + Environment{{"GROUP_RANK", "2"}},
                  {"GROUP_RANK=2, but GROUP_WORLD_SIZE=2; GROUP_RANK must be 0 to 1"}},
        WrongCase{"PortTooHigh",
                  kVariables + Environment{{"MASTER_PORT", "65536"}},
                  {"MASTER_PORT must be 1 to 65535 (got 65536)"}},
        WrongCase{"NoPortBesideTorchruns",
                  kTorchrun + Environment{{"MASTER_PORT", "65535"}},
                  {"MASTER_PORT must be 1 to 65534 (got 65535)"}},
        WrongCase{"PortOfWords",
                  kVariables + Environment{{"MASTER_PORT", "http"}},
                  {"MASTER_PORT must be a whole number of at least 1 (got \"http\")"}},
        WrongCase{"TwoLaunchers",
                  kMpirun + kVariables + Environment{{"WORLD_SIZE", "2"}},
                  {"WORLD_SIZE=2, but OMPI_COMM_WORLD_SIZE=4 (Open MPI's mpirun)", "unset WORLD_SIZE"}},
        WrongCase{"TwoRanks",
                  kSrunPmi + kVariables + Environment{{"RANK", "0"}},
                  {"RANK=0, but PMI_RANK=3 (a launcher with PMI)"}},
        WrongCase{"NodeList",
                  kSrun + Environment{{"SLURM_STEP_NODELIST", "node[003"}},
                  {"SLURM_STEP_NODELIST must be a list of hosts", "(got \"node[003\")", "MASTER_ADDR"}},
        WrongCase{"NoRankOfTheStep", kSrunPmi + Environment{{"PMI_RANK", "4"}}, {"PMI_RANK=4, but PMI_SIZE=4"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SlurmNodeLists, BeginWithRank0sNode) {
  const std::vector<std::pair<std::string, std::string>> lists = {{"node003", "node003"},
                                                                  {"node[003-007,9]", "node003"},
                                                                  {"node[9,003-007]", "node9"},
                                                                  {"login1,node[1-2]", "login1"},
                                                                  {"gpu-a[1-2]-ib", "gpu-a1-ib"},
                                                                  {"rack[2-3]n[08-09]", "rack2n08"},
                                                                  {"n[5]", "n5"}};
  for (const auto& [list, first] : lists)
    EXPECT_EQ(In(kSrun + Environment{{"SLURM_STEP_NODELIST", list}}).master_address, first) << list;
}

TEST(SlurmPorts, DifferBetweenStepsAndStayBelowEphemeralOnes) {
  auto port = [](const char* job, const char* step) {
    return In(kSrun + Environment{{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}).master_port;
  };
  EXPECT_EQ(port("19999", "0"), 19999);
  EXPECT_EQ(port("19999", "1"), 10000);
  EXPECT_NE(port("123456789", "4"), port("123456789", "5"));
}

TEST(ThisProcess, IsFoundInTheEnvironment) {
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  EXPECT_EQ(LaunchedAs().rank, 1);
  EXPECT_EQ(LaunchedAs().size, 2);
  unsetenv("RANK");
  EXPECT_THAT(LaunchedAs().error, HasSubstr("WORLD_SIZE=2"));
  unsetenv("WORLD_SIZE");
  EXPECT_FALSE(LaunchedAs().launched);
}

}  // namespace launch_test
}  // namespace twofold
