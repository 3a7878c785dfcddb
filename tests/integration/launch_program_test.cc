// `twofold launch` as the supervisor of ranks that it starts itself, and ranks that meet as each launcher starts them.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/children.h"
#include "tests/ports.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace launch_program_test {

using test::Child;
using test::Environment;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using Words = std::vector<std::string>;

Words Launch(Words options, Words command) {
  Words words = {TWOFOLD_PROGRAM, "launch"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}
// Ranks that run a script.
Words Script(int ranks, const std::string& script, Words options = {}) {
  options.insert(options.begin(), {StrCat("--ranks=", ranks), "--program=/bin/sh"});
  return Launch(options, {"-c", script});
}

struct Ended {
  int status;
  std::string output;
};
Ended EndOf(const Words& words, const Environment& environment = {}) {
  Child child(words, environment);
  const int status = child.Wait();
  return {status, child.Output()};
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(LaunchProgram, TellsEachRankWhoItIs) {
  const Ended run = EndOf(Script(3,
                                 "echo \"rank $RANK of $WORLD_SIZE, here $LOCAL_RANK of $LOCAL_WORLD_SIZE, node "
                                 "$NODE_RANK of $NNODES, at $MASTER_ADDR\"; "
                                 "echo \"port $MASTER_PORT token $TWOFOLD_JOB_TOKEN\""));
  EXPECT_EQ(run.status, 0) << run.output;
  for (int r = 0; r < 3; ++r)
    EXPECT_THAT(run.output, HasSubstr(StrCat("rank ", r, " of 3, here ", r, " of 3, node 0 of 1, at 127.0.0.1\n")));
  const std::string token = run.output.substr(
      run.output.find("port "), run.output.find('\n', run.output.find("port ")) - run.output.find("port "));
  EXPECT_THAT(token, MatchesRegex("port [0-9]+ token [0-9a-f]+"));
  EXPECT_GT(token.size(), 40u);
  EXPECT_EQ(Count(run.output, token), 3u) << "the same for all";
}

TEST(LaunchProgram, TellsRanksOfSeveralNodes) {
  const Words words = Script(4,
                             "echo \"rank $RANK of $WORLD_SIZE, here $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $NODE_RANK "
                             "of $NNODES, at $MASTER_ADDR:$MASTER_PORT ($TWOFOLD_JOB_TOKEN)\"",
                             {"--nodes=2", "--node-rank=1", "--master=node1:29500"});
  const Ended run = EndOf(words, {{"TWOFOLD_JOB_TOKEN", "nightly"}});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("rank 2 of 4, here 0 of 2, node 1 of 2, at node1:29500 (nightly)\n"),
                                HasSubstr("rank 3 of 4, here 1 of 2, node 1 of 2")));
}

TEST(LaunchProgram, TakesNodesFromATaskOfSrun) {
  const Words words =
      Script(4, "echo \"rank $RANK, node $NODE_RANK of $NNODES, at $MASTER_ADDR:$MASTER_PORT\"", {"--nodes=2"});
  const Ended run = EndOf(words, {{"SLURM_JOB_ID", "4711"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_PROCID", "1"},
                                  {"SLURM_STEP_NUM_TASKS", "2"},
                                  {"SLURM_LOCALID", "0"},
                                  {"SLURM_NODEID", "1"},
                                  {"SLURM_STEP_NODELIST", "n[3-4]"}});
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("rank 3, node 1 of 2, at n3:14711\n"));
}

TEST(LaunchProgram, LabelsWhatRanksWrite) {
  const Ended run = EndOf(Script(2, "echo \"first of $RANK\" >&2; printf last >&2; echo result", {"--label"}));
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.output, AllOf(HasSubstr("[0] first of 0\n"), HasSubstr("[1] first of 1\n"), HasSubstr("[0] last\n"),
                                HasSubstr("[1] last\n")));
  EXPECT_EQ(Count(run.output, "result\n"), 2u);
  EXPECT_THAT(run.output, Not(HasSubstr("] result"))) << "stdout stays as it is";
}

TEST(LaunchProgram, NamesTheFirstThatFailsAndEndsTheOthers) {
  const Ended run = EndOf(Script(3, "if [ $RANK = 1 ]; then exit 7; fi; exec sleep 100", {"--grace=0.3"}));
  EXPECT_EQ(run.status, 7);
  EXPECT_THAT(run.output, AllOf(HasSubstr("launch: rank 1 (process "),
                                HasSubstr(") ended with exit status 7; ranks 0, 2 have 0.3 s to end by themselves"),
                                HasSubstr("launch: ending ranks 0, 2, still running")));
}

TEST(LaunchProgram, LetsTheOthersEndInOrder) {
  const Ended run = EndOf(Script(
      2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 2; echo \"rank $RANK has written what it knows\"; exit 1"));
  EXPECT_EQ(run.status, 128 + SIGKILL);
  EXPECT_THAT(run.output, AllOf(HasSubstr("was killed by signal 9 (Killed); rank 0 has 10 s to end by itself"),
                                HasSubstr("rank 0 has written what it knows"), Not(HasSubstr("still running"))));
  EXPECT_EQ(Count(run.output, "launch: rank"), 1u) << "consequences are not told";
}

TEST(LaunchProgram, KillsWhoDoesNotEnd) {
  const Ended run = EndOf(Script(
      2, "if [ $RANK = 1 ]; then sleep 0.5; exit 1; fi; trap '' TERM; while true; do sleep 0.1; done", {"--grace=0"}));
  EXPECT_EQ(run.status, 1);
}

TEST(LaunchProgram, HandsSignalsOn) {
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Child child(Script(
        2, "trap 'echo \"end of $RANK\"; exit 0' TERM INT HUP; echo \"ready $RANK\"; while true; do sleep 0.05; done"));
    ASSERT_TRUE(child.AwaitOutput("ready 0") && child.AwaitOutput("ready 1"));
    child.Signal(signal);
    EXPECT_EQ(child.Wait(), 0);
    EXPECT_THAT(child.Output(), AllOf(HasSubstr("end of 0"), HasSubstr("end of 1")));
  }
}

TEST(LaunchProgram, HandsNoSignalOnThatItIgnores) {
  Words words = Script(2, "trap 'exit 0' TERM; echo \"ready $RANK\"; while true; do sleep 0.05; done");
  words.insert(words.begin(), {"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""});
  Child child(words);
  ASSERT_TRUE(child.AwaitOutput("ready 0") && child.AwaitOutput("ready 1"));
  child.Signal(SIGHUP);
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 0);
}

TEST(LaunchProgram, ASecondSignalKills) {
  Child child(Script(2, "trap 'echo \"heard $RANK\"' TERM; echo \"ready $RANK\"; while true; do sleep 0.05; done"));
  ASSERT_TRUE(child.AwaitOutput("ready 0") && child.AwaitOutput("ready 1"));
  child.Signal(SIGTERM);
  ASSERT_TRUE(child.AwaitOutput("heard 0") && child.AwaitOutput("heard 1"));
  int status = -1;
  for (int tries = 0; tries < 100 && status < 0; ++tries) {
    child.Signal(SIGTERM);  // soon after the first it is the same one
    status = child.Wait(0.2);
  }
  EXPECT_EQ(status, 128 + SIGKILL);
}

// "S", "T" (stopped), "Z" (it has ended, and its parent has not asked yet); "": there is none.
std::string StateOf(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string number, name, state;
  return file >> number >> name >> state ? state : "";
}

// Whether there is such a process, and not only what is left of it for a parent to ask about.
bool Lives(pid_t pid) {
  const std::string state = StateOf(pid);
  return !state.empty() && state != "Z" && state != "X";
}

// Until it holds.
template <class F>
bool Await(F holds) {
  for (int tries = 0; tries < 3000 && !holds(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

// The processes that lines "WHAT PID of RANK" of `output` tell of, by rank.
std::map<int, pid_t> Named(const std::string& what, const std::string& output) {
  std::map<int, pid_t> pids;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    pid_t pid = 0;
    int rank = 0;
    if (line.starts_with(what) && std::sscanf(line.c_str() + what.size(), " %d of %d", &pid, &rank) == 2)
      pids[rank] = pid;
  }
  return pids;
}

// Each rank is a shell that has started another process and waits for it.
constexpr char kStartsAnother[] =
    "sleep 1000 & echo \"started $! of $RANK\"; echo \"shell $$ of $RANK\"; echo \"ready $RANK\"; wait";

bool AwaitShells(const Child& child, int ranks) {
  bool all = true;
  for (int rank = 0; rank < ranks; ++rank) all = all && child.AwaitOutput(StrCat("ready ", rank));
  return all;
}

// Both have ended by the time that launch looks. The one that ended by itself may have done so since the other was
// lost.
TEST(LaunchProgram, NamesWhoWasKilledOfThoseThatHaveEndedMeanwhile) {
  Child child(Script(
      2, "trap 'exit 1' TERM; echo \"shell $$ of $RANK\"; echo \"ready $RANK\"; while true; do sleep 0.05; done"));
  ASSERT_TRUE(AwaitShells(child, 2)) << child.Output();
  const auto shells = Named("shell", child.Output());
  child.Signal(SIGSTOP);
  ASSERT_TRUE(Await([&] { return StateOf(child.pid()) == "T"; }));
  kill(shells.at(1), SIGKILL);
  kill(shells.at(0), SIGTERM);
  ASSERT_TRUE(Await([&] { return !Lives(shells.at(0)) && !Lives(shells.at(1)); }));
  child.Signal(SIGCONT);
  EXPECT_EQ(child.Wait(), 128 + SIGKILL);
  EXPECT_THAT(child.Output(), AllOf(HasSubstr("launch: rank 1 (process "), Not(HasSubstr("launch: rank 0"))));
}

TEST(LaunchProgram, EndsWhatRanksHaveStarted) {
  Child child(Script(3, kStartsAnother, {"--grace=0"}));
  ASSERT_TRUE(AwaitShells(child, 3)) << child.Output();
  kill(Named("shell", child.Output()).at(1), SIGKILL);
  EXPECT_EQ(child.Wait(), 128 + SIGKILL);
  const auto started = Named("started", child.Output());
  EXPECT_EQ(started.size(), 3u);
  for (const auto& [rank, pid] : started) EXPECT_FALSE(Lives(pid)) << "of rank " << rank;
}

TEST(LaunchProgram, EndsWhatRanksLeaveBehind) {
  const Ended run = EndOf(Script(2, "sleep 1000 & echo \"started $! of $RANK\""));
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.output, HasSubstr("launch: ending processes that ranks 0, 1 started and left running"));
  const auto started = Named("started", run.output);
  EXPECT_EQ(started.size(), 2u);
  for (const auto& [rank, pid] : started) EXPECT_FALSE(Lives(pid)) << "of rank " << rank;
}

// A shell has what it starts in the background ignore SIGINT.
TEST(LaunchProgram, AnInterruptEndsWhatRanksHaveStarted) {
  Child child(Script(2, kStartsAnother));
  ASSERT_TRUE(AwaitShells(child, 2)) << child.Output();
  child.Signal(SIGINT);
  EXPECT_EQ(child.Wait(), 128 + SIGINT);
  for (const auto& [rank, pid] : Named("started", child.Output())) EXPECT_FALSE(Lives(pid)) << "of rank " << rank;
}

TEST(LaunchProgram, KillsWhatRanksHaveStartedThatDoesNotEnd) {
  Child child(Script(1, "sh -c 'trap \"\" TERM; echo \"started $$ of $RANK\"; while true; do sleep 0.1; done' & wait"));
  ASSERT_TRUE(child.AwaitOutput("of 0"));
  child.Signal(SIGTERM);
  EXPECT_EQ(child.Wait(), 128 + SIGTERM);
  EXPECT_FALSE(Lives(Named("started", child.Output()).at(0)));
}

TEST(LaunchProgram, RanksAndWhatTheyHaveStartedEndWithIt) {
  Child child(Script(2, kStartsAnother));
  ASSERT_TRUE(AwaitShells(child, 2)) << child.Output();
  child.Signal(SIGKILL);
  EXPECT_EQ(child.Wait(), 128 + SIGKILL);
  for (const char* what : {"shell", "started"}) {
    const auto pids = Named(what, child.Output());
    EXPECT_EQ(pids.size(), 2u);
    for (const auto& [rank, pid] : pids)
      EXPECT_TRUE(Await([pid = pid] { return !Lives(pid); })) << what << " of rank " << rank;
  }
}

TEST(LaunchProgram, StartsAsManyRanksAsTheSpecHas) {
  const Words run = {"run", "examples/tp_overlap.textproto", "--set=parallel.dp=3",
                     "--set=train.global_batch=12"};  // tp: 4
  const Ended printed = EndOf(Launch({"--fabric=gloo", "--print"}, run));
  EXPECT_EQ(printed.status, 0) << printed.output;
  EXPECT_THAT(printed.output, HasSubstr("WORLD_SIZE=12"));
  EXPECT_THAT(printed.output, HasSubstr("RANK=11 "));
}

TEST(LaunchProgram, RefusesWhatContradicts) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {Script(0, ":"), "--ranks must be at least 1 (got 0)"},
      {Script(2, ":", {"--nodes=0"}), "--nodes must be at least 1 (got 0)"},
      {Script(3, ":", {"--nodes=2", "--node-rank=0", "--master=n:1"}),
       "--ranks must be a multiple of --nodes, such as 2 or 4 (got --ranks=3 and --nodes=2)"},
      {Script(4, ":", {"--nodes=2", "--master=n:1"}),
       "--node-rank must be this node's number, from 0 to 1 with --nodes=2 (none is given)"},
      {Script(4, ":", {"--nodes=2", "--node-rank=2", "--master=n:1"}), "from 0 to 1 with --nodes=2 (got 2)"},
      {Script(4, ":", {"--nodes=2", "--node-rank=0"}), "such as node1:29500 (none is given)"},
      {Script(4, ":", {"--nodes=2", "--node-rank=0", "--master=node1"}),
       "--master must be HOST:PORT of node 0, the same on all nodes, such as node1:29500 (got \"node1\")"},
      {Script(4, ":", {"--nodes=2", "--node-rank=0", "--master=node1:70000"}), "(got \"node1:70000\")"},
      {Launch({"--ranks=4", "--fabric=gloo", "--nodes=2", "--node-rank=0", "--master=node1:29500"},
              {"bench", "all_reduce"}),
       "--nodes=2: this job has no token, so any process that can reach node1:29500 could join; set TWOFOLD_JOB_TOKEN"},
      {Script(4, ":", {"--master=node1:29500"}), "--node-rank and --master are only for several nodes"},
      {Script(4, ":", {"--grace=-1"}), "--grace must be from 0 to 1e+06 seconds (got -1)"},
      {Script(4, ":", {"--grace=nan"}), "seconds (got nan)"},
      {Script(100000, ":"), "--ranks must be at most 4096 per host (got 100000 with --nodes=1)"},
      {Launch({"--ranks=2", "--fabric=in_memory"}, {"run", "x"}), "its ranks are not processes"},
      {Launch({"--ranks=2", "--fabric=warp"}, {"run", "x"}), "--fabric=warp: unknown fabric"},
  };
  for (const auto& [words, says] : wrong) {
    const Ended run = EndOf(words);
    EXPECT_EQ(run.status, 2) << says;
    EXPECT_THAT(run.output, HasSubstr(says));
  }
  EXPECT_THAT(EndOf(Script(2, ":"), {{"RANK", "0"}, {"WORLD_SIZE", "2"}}).output,
              HasSubstr("itself started by a launcher (RANK and WORLD_SIZE)"));
}

#ifdef TWOFOLD_BY_MPI
// What all ranks would find wrong is told once, by launch.
TEST(LaunchProgram, ChecksTheCommandBeforeItStartsRanks) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"foo"}, "launch cannot start the command \"foo\"; use run, bench or calibrate"},
      {{"list", "models"}, "launch cannot start the command \"list\""},
      {{"run", "nosuch.textproto"}, "nosuch.textproto"},
      {{"run", "--quiet", "nosuch.textproto"}, "nosuch.textproto"},
      {{"run", "--set", "train.steps=1", "examples/ddp.textproto", "--frabic=mpi"},
       "run: unknown option --frabic; did you mean --fabric?"},
      {{"run", "examples/ddp.textproto", "--set=train.stops=1"}, "did you mean steps"},
      {{"run", "examples/ddp.textproto", "--fabric=in_memory"}, "--fabric=in_memory: its ranks are not processes"},
      {{"run", "examples/ddp.textproto", "--fabric", "in_memory"}, "--fabric=in_memory: its ranks are not processes"},
  };
  for (const auto& [command, says] : wrong) {
    const Ended run = EndOf(Launch({"--ranks=2"}, command));
    EXPECT_EQ(run.status, 2) << says;
    EXPECT_THAT(run.output, HasSubstr(says));
    EXPECT_EQ(Count(run.output, "error"), 1u) << run.output;
  }
  const Ended two = EndOf(Launch({"--ranks=2", "--fabric=mpi"}, {"bench", "all_reduce", "--fabric=in_memory"}));
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.output, HasSubstr("--fabric=mpi, but the command has --fabric=in_memory; leave one of them out"));
  const Ended same = EndOf(Launch({"--ranks=2", "--print"}, {"run", "examples/ddp.textproto", "--fabric=mpi"}));
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_EQ(Count(same.output, "--fabric=mpi"), 1u) << same.output;
}
#endif

TEST(LaunchProgram, SaysWhenAProgramCannotBeStarted) {
  const Ended run = EndOf(Launch({"--ranks=1", "--program=./no-such-program"}, {}));
  EXPECT_EQ(run.status, 127);
  EXPECT_THAT(run.output, HasSubstr("its program cannot be started"));
}

// Of ranks that end while others are being started, none is taken for a signal from outside.
TEST(LaunchProgram, NamesWhoFailedWhileItStartsOthers) {
  for (int i = 0; i < 10; ++i) {
    const Ended run = EndOf(Launch({"--ranks=8", "--program=./no-such-program", "--grace=0"}, {}));
    EXPECT_EQ(run.status, 127);
    EXPECT_THAT(run.output, HasSubstr("its program cannot be started"));
    EXPECT_THAT(run.output, Not(HasSubstr("second signal")));
  }
}

TEST(LaunchProgram, PrintsForMachinesThatHaveWhatThisOneLacks) {
  const Ended run = EndOf(Launch({"--ranks=2", "--fabric=nccl", "--print"}, {"run", "examples/ddp.textproto"}));
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(Count(run.output, " WORLD_SIZE=2"), 2u) << run.output;
}

// The script of a page's block that has such a line.
std::string ScriptOfPage(const std::string& page, const std::string& has) {
  std::ifstream in(page);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string head = "```\n#!/bin/bash\n";
  for (size_t at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
    const std::string script = text.substr(at + 4, text.find("```", at + 4) - at - 4);
    if (script.find(has) != std::string::npos) return script;
  }
  return "";
}

// Which tests/slurm runs under Slurm.
TEST(LaunchProgram, PrintsTheSlurmScriptsOfThePages) {
  const std::string folder = test::ScratchFolder("slurm");
  std::filesystem::create_directory(folder);
  const std::string spec = StrCat(folder, "/my.textproto"), file = StrCat(folder, "/job.sh");
  const auto script = [&](const std::string& checkpoint, Words options, Words more) {
    std::ofstream(spec) << "model { mlp { inputs: 4 hidden: 4 classes: 2 } }\ntrain { micro_batch: 1 steps: 2 "
                        << checkpoint << " }\nparallel { dp: 16 }\n";
    options.insert(options.begin(), {"--slurm", "--ranks=16", "--nodes=2", "--quiet"});
    more.insert(more.begin(), {"run", spec});
    const Ended run = EndOf(Launch(options, more));
    EXPECT_EQ(run.status, 0) << run.output;
    std::ofstream(file) << run.output;
    EXPECT_EQ(std::system(StrCat("bash -n ", file).c_str()), 0) << run.output;
    std::string text = run.output;
    if (const size_t at = text.find(spec); at != std::string::npos) text.replace(at, spec.size(), "my.textproto");
    return text;
  };
  const std::string page = "docs/launching.md", checkpoint = "checkpoint { every_steps: 1 }";
  const std::string mpi = script("", {}, {"--fabric=mpi"}), gloo = script("", {"--fabric=gloo", "--time=30"}, {});
  const std::string again = script(checkpoint, {"--time=08:00:00"}, {"--fabric=gloo", "--out=runs/my"});
  EXPECT_EQ(mpi, ScriptOfPage(page, "--fabric=mpi"));
  EXPECT_EQ(gloo,
            "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --time=30\n"
            "srun --kill-on-bad-exit=1 twofold run my.textproto --fabric=gloo\n");
  EXPECT_EQ(script("threads_per_rank: 4", {"--fabric=gloo"}, {}),
            "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --cpus-per-task=4\n"
            "srun --kill-on-bad-exit=1 --cpus-per-task=4 twofold run my.textproto --fabric=gloo\n");
  std::string of_page = ScriptOfPage("docs/elastic_training.md", "scontrol requeue");
  of_page.replace(of_page.find(" --gpus-per-node=8"), 18, "");
  of_page.replace(of_page.find("nccl"), 4, "gloo");
  EXPECT_EQ(again, of_page);
  const Ended bench = EndOf(
      Launch({"--slurm", "--ranks=16", "--nodes=2", "--quiet", "--fabric=nccl"}, {"bench", "all_reduce", "--op=a b"}));
  EXPECT_THAT(
      bench.output,
      HasSubstr("--gpus-per-node=8\nsrun --kill-on-bad-exit=1 twofold bench all_reduce '--op=a b' --fabric=nccl\n"));
}

TEST(LaunchProgram, RefusesSlurmScriptsThatCannotBe) {
  const std::pair<Words, std::string> wrong[] = {
      {{"--ranks=2", "--slurm", "--time=soon"}, "--time=soon: is no time limit for sbatch"},
      {{"--ranks=2", "--time=30"}, "--time=30 is only for --slurm"},
      {{"--ranks=3", "--slurm", "--nodes=2"}, "--ranks must be a multiple of --nodes"},
      {{"--ranks=2", "--slurm", "--print"}, "it excludes --program"},
      {{"--ranks=3", "--slurm"}, "--ranks=3, but the spec has 4 ranks"}};
  for (const auto& [options, says] : wrong) {
    const Ended run = EndOf(Launch(options, {"run", "examples/ddp.textproto"}));
    EXPECT_EQ(run.status, 2) << says;
    EXPECT_THAT(run.output, HasSubstr(says));
  }
}

TEST(LaunchProgram, PrintsWhatItWouldRunButNoToken) {
  const Ended run = EndOf(Script(2, "true", {"--print", "--nodes=2", "--node-rank=0", "--master=[fd00::1]:29500"}),
                          {{"TWOFOLD_JOB_TOKEN", "hidden"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.output,
            "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NODE_RANK=0 NNODES=2 MASTER_ADDR=fd00::1 "
            "MASTER_PORT=29500 TWOFOLD_LAUNCHER=twofold /bin/sh -c true\n");
}

// ---- Ranks that meet ----

#ifdef TWOFOLD_SCENARIO

TEST(LaunchedRanks, MeetByTheStore) {
  const Ended run = EndOf(Launch({"--ranks=4", StrCat("--program=", TWOFOLD_SCENARIO)}, {"meet"}));
  EXPECT_EQ(run.status, 0) << run.output;
  for (int r = 0; r < 4; ++r)
    EXPECT_THAT(run.output, HasSubstr(StrCat("met ", r, " of 4, here ", r, " of 4, by the store at 127.0.0.1:")));
  EXPECT_EQ(Count(run.output, "gathered of 0,of 1,of 2,of 3\n"), 4u);
}

TEST(LaunchedRanks, OfTwoNodesMeetByTheStore) {
  const test::Ports port;
  const std::string master = StrCat("--master=localhost:", port.first()),
                    program = StrCat("--program=", TWOFOLD_SCENARIO);
  auto node = [&](int rank) {
    return Launch({"--ranks=4", program, "--nodes=2", StrCat("--node-rank=", rank), master},
                  {"meet", "bind: '0.0.0.0'"});
  };
  const Environment token = {{"TWOFOLD_JOB_TOKEN", "a secret"}};
  Child second(node(1), token), first(node(0), token);
  for (Child* child : {&first, &second}) {
    EXPECT_EQ(child->Wait(), 0) << child->Output();
    EXPECT_EQ(Count(child->Output(), "gathered of 0,of 1,of 2,of 3\n"), 2u);
  }
}

TEST(LaunchedRanks, EndWhenOneDies) {
  const Ended run = EndOf(Script(
      3, StrCat("if [ $RANK = 1 ]; then exec ", TWOFOLD_SCENARIO, " die; fi; exec ", TWOFOLD_SCENARIO, " meet")));
  EXPECT_EQ(run.status, 128 + SIGKILL);
  EXPECT_EQ(Count(run.output, "fabric.rendezvous: lost rank 1 (process "), 2u) << run.output;
  EXPECT_THAT(run.output, HasSubstr("launch: rank 1 (process "));
}

#ifdef TWOFOLD_BY_MPI
TEST(LaunchedRanks, MeetByMpiUnderMpirun) {
  const Environment root = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const Ended run =
      EndOf({"mpirun", "-n", "3", "--oversubscribe", "--bind-to", "none", TWOFOLD_SCENARIO, "meet"}, root);
  EXPECT_EQ(run.status, 0) << run.output;
  for (int r = 0; r < 3; ++r)
    EXPECT_THAT(run.output, HasSubstr(StrCat("met ", r, " of 3, here ", r, " of 3, by MPI\n")));
  EXPECT_EQ(Count(run.output, "gathered of 0,of 1,of 2\n"), 3u);
}
#endif

#endif

}  // namespace launch_program_test
}  // namespace twofold
