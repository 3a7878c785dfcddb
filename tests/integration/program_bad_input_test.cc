// What people get wrong: each row gives the exit status, and a message that names the cause and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/base/strings.h"
#include "tests/children.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_bad_input_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Row {
  const char* arguments;  // @: the test's folder; %: @ itself
  int status;
  const char* cause;
  const char* remedy;
};

class BadInput : public Program {
 protected:
  BadInput() {
    Write("small", kSmall);
    Write("file", "");
    Write("binary", std::string("\0\1\2\xff", 4));
    Write("latin1", "name: \"caf\xe9\"\n" + std::string(kSmall));
    Write("utf16", std::string("\xff\xfem\0o\0d\0", 8));
    Write("open", "model { mlp { inputs: 8 hidden: [16] classes: 4 }\n");
    Write("fsdp", "model { preset: \"gpt2-124m\" }\nparallel { sharding: FSDP }\n");
    Write("twice", std::string(kSmall) + "name: \"a\" name: \"b\"\n");
    Write("other.json", "{}");
    Write("cut.json", "{\n");
    Write("typo.json", "{\"train\": {\"stps\": 3}}");
    fs::create_directory(At("folder"));
    fs::create_directory(At("traces"));
    Write("traces/rank.0.et",
          "\x07\n\x05"
          "1.0.0");
    fs::create_symlink(At("nowhere"), At("dangling"));
  }
  std::string Filled(std::string text) const {
    for (size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, folder_.string());
    std::replace(text.begin(), text.end(), '%', '@');
    return text;
  }
};

// ---- flags and commands ----
const Row kFlags[] = {
    {"", 2, "no command is given", "use one of run, "},
    {"rum @/small", 2, "unknown command \"rum\"", "did you mean run"},
    {"RUN @/small", 2, "unknown command \"RUN\"", "did you mean run?"},
    {"benchmark all_reduce", 2, "unknown command \"benchmark\"", "use `twofold bench OPERATION`"},
    {"version", 2, "unknown command \"version\"", "use `twofold --version`"},
    {"train @/small", 2, "unknown command \"train\"", "use `twofold run SPEC`"},
    {"simulate @/small", 2, "unknown command \"simulate\"", "use `twofold run SPEC --fabric=simulated`"},
    {"validate @/small", 2, "unknown command \"validate\"", "use `twofold run SPEC --check`"},
    {"-V", 2, "unknown option -V", "here it is --version"},
    {"topology shwo", 2, "unknown subcommand \"shwo\"", "did you mean show?"},
    {"list model", 2, "unknown subcommand \"model\"", "did you mean models?"},
    {"help laucnh", 2, "unknown command \"laucnh\"", "did you mean launch?"},
    {"completion powershell", 2, "\"powershell\" is not possible", "bash, zsh, fish"},
    {"run", 2, "SPEC is required", "see twofold run --help"},
    {"run @/small --fabrik=mpi", 2, "unknown option --fabrik", "did you mean --fabric?"},
    {"calibrate --from=@/sweep.csv --cluster=dgx-a100", 2, "a table of collectives needs",
     "--cluster and --cluster-out"},
    {"calibrate --from=@/sweep.csv --cluster=dgx-a100 --cluster-out=@/c.textproto", 2, "sweep.csv", "cannot be read"},
    {"calibrate --from=@/runs.csv --spec=@/ok.textproto", 2, "runs.csv",
     "a table of runs needs --spec and --framework-out"},
    {"calibrate --from=@/runs.csv --spec=@/ok.textproto --framework-out=@/f.textproto --cluster=dgx-a100", 2,
     "--cluster and --spec", "leave one of them out"},
    {"calibrate --framework-out=@/f.textproto", 2, "--spec and --framework-out", "only for --from=TABLE"},
    {"run @/small --outt=x", 2, "unknown option --outt", "did you mean --out?"},
    {"run @/small -x", 2, "unknown option -x", "known: "},
    {"run @/small --out", 2, "--out needs a value", "as in --out=DIR"},
    {"run @/small @/small", 2, "unexpected argument", "see twofold run --help"},
    {"launch --rank=2 -- run @/small", 2, "unknown option --rank;", "did you mean --ranks"},
    {"launch --ranks=two -- run @/small", 2, "--ranks must be a whole number (got \"two\")",
     "see twofold launch --help"},
    {"launch --ranks=0 -- run @/small", 2, "--ranks", "at least 1 (got 0)"},
    {"launch --ranks=2", 2, "launch: nothing to run", "give a command after --"},
    {"launch -- twofold run @/small", 2, "cannot start the command \"twofold\"", "leave \"twofold\" out"},
    {"launch -- bench all_reduce", 2, "--ranks is required", "only a run has a spec"},
    {"launch -- run @/small --check", 2, "--ranks is required", "leave launch out"},
    {"launch -- run nowhere.textproto", 2, "nowhere.textproto", "cannot be read"},
    {"launch --ranks=2.5 -- run @/small", 2, "--ranks must be a whole number", "(got \"2.5\")"},
    {"launch --ranks=99999999999999999999 -- run @/small", 2, "--ranks must be a whole number", "--help"},
    {"bench", 2, "OPERATION is required", "see twofold bench --help"},
    {"bench allreduce", 2, "unknown operation \"allreduce\"", "did you mean all_reduce"},
    {"bench all_reduce -b 1X", 2, "--minbytes: \"1X\" is not a size", "such as 8, 64K"},
    {"bench all_reduce -b 2M -e 1M", 2, "--maxbytes", "--minbytes"},
    {"bench all_reduce --op=xor", 2, "(got \"xor\")", "--op must be sum, prod"},
    {"bench all_reduce -g 8", 2, "-g 8: an option of nccl-tests", "use --ranks"},
    {"bench all_reduce --fabric=telepathy", 2, "--fabric=telepathy: unknown fabric", "known: in_memory"},
    {"bench all_reduce --fabric=simulated --cluster=dgxh100", 2, "dgxh100", "did you mean dgx-h100"},
    {"schedule ZB-H1", 2, "unknown schedule \"ZB-H1\"", "did you mean ZERO_BUBBLE_H1?"},
    {"schedule 1F1B", 2, "unknown schedule \"1F1B\"", "did you mean ONE_F_ONE_B?"},
    {"run @/small --check --set=train.optimizer=sgd", 2, "\"sgd\" is not valid", "use a block, optimizer={ sgd { } }"},
    {"topology show dgx-h100 --nodes=0", 2, "--nodes=0", "1"},
    {"topology import @/file --nodes=2 --nic-gbits=0", 2, "--nic-gbits must be above 0", "(got 0)"},
    {"topology import @/file --nic-gbits=400", 2, "--nic-gbits is the rate of the NICs between nodes", "--nodes=N"},
    {"topology import @/file --from=yaml", 2, "\"yaml\" is not possible", "nccl, smi, simgrid"},
    {"plan --model=gpt3 --cluster=dgx-h100 --nodes=1 --global-batch=8", 2, "gpt3", "gpt3-175b"},
    {"predict @/small --vary=train.steps", 2, "train.steps", "="},
    {"run @/small --color=pink", 2, "\"pink\" is not possible", "known: auto, always, never"},
    {"run @/small -q -v", 2, "--quiet excludes --verbose", "--help"},
    {"run @/small --notes=long", 2, "\"long\" is not possible", "known: short, full, none"},
    {"spec parallel.shardin", 2, "\"shardin\" is not a field of parallel", "did you mean sharding?"},
    {"spec train.steps.first", 2, "train.steps is not a block", "end the path there"},
    {"spec micro_bacth", 2, "\"micro_bacth\" is in no name and no meaning", "did you mean micro_batch?"},
    {"spec xyzzy", 2, "\"xyzzy\" is in no name", "`twofold spec` prints all"},
    {"spec train --schema", 2, "--schema and --proto print all fields", "leave FIELD out"},
    {"init --model=gpt-3", 2, "--model=gpt-3: unknown model", "did you mean gpt-3m"},
    {"init --cluster=dgxh100", 2, "dgxh100", "did you mean dgx-h100"},
    {"init --framework=MEGATRON", 2, "--framework=MEGATRON: predicts", "--cluster=dgx-h100"},
    {"init --framework=TORCH --cluster=dgx-h100", 2, "--framework=TORCH: unknown framework", "PYTORCH_EAGER"},
    {"topology show dgx-h100 --json --out=-", 2, "both want stdout", "give the picture a file"},
    {"sweep @/small --vary=train.steps=1,2 --scaling=medium", 2, "medium", "strong"},
    {"replay @/nowhere --cluster=dgx-h100", 2, "nowhere: cannot be read", "No such file"},
    {"replay @/traces --cluster=dgxh100", 2, "dgxh100", "did you mean dgx-h100"},
    {"replay @ --cluster=dgx-h100", 2, "has no execution traces in it", "trace.execution_graph"},
    {"replay @ --cluster=dgx-h100 --ranks=0", 2, "--ranks", "at least 1 (got 0)"},
    {"run @/small --check --set=trace.execution_graph=true --fabric=in_memory", 2, "only simulated ranks keep one",
     "--fabric=simulated"},
    {"run @/small --check --set=trace.goal=true --fabric=in_memory", 2, "only simulated ranks keep one",
     "--fabric=simulated"},
    {"run @/small --check --set=trace.goal=true --fabric=simulated", 2, "no rank can stand for others",
     "fabric.simulated.folding: OFF"},
};

// ---- what other programs call options ----
const Row kOthers[] = {
    {"bench --np 4", 2, "unknown option --np",
     "here it is --ranks=N, the number of ranks in all; see twofold bench --help"},
    {"bench all_reduce -np 4", 2, "unknown option -np", "here it is --ranks=N"},
    {"bench all_reduce --gpus-per-node=8", 2, "unknown option --gpus-per-node", "here it is --ranks-per-node=N"},
    {"launch -n 4 -- run @/small", 2, "unknown option -n;", "here it is --ranks=N"},
    {"launch -np 4 -- run @/small", 2, "unknown option -np;", "here it is --ranks=N"},
    {"launch -N 2 -n 4 -- run @/small", 2, "unknown option -N;", "here it is --nodes=N"},
    {"launch --nproc_per_node=4 -- run @/small", 2, "unknown option --nproc_per_node",
     "here it is --ranks=N, which counts the ranks of all nodes together"},
    {"launch --nnodes=2 --nproc-per-node 4 -- run @/small", 2, "unknown option --nnodes", "here it is --nodes=N"},
    {"launch --master_addr=node1 -- run @/small", 2, "unknown option --master_addr", "here it is --master=HOST:PORT"},
    {"launch --hostfile hosts -- run @/small", 2, "unknown option --hostfile",
     "mpirun -n 16 --hostfile=FILE twofold run"},
    {"launch --max-restarts=3 -- run @/small", 2, "unknown option --max-restarts", "here it is --restarts=N"},
    {"run @/small --gpus=4", 2, "unknown option --gpus", "the spec gives the number of ranks"},
    {"run @/small --nproc_per_node=4", 2, "unknown option --nproc_per_node", "--set=parallel.dp=N"},
    {"run @/small --tensor-model-parallel-size=2", 2, "unknown option --tensor-model-parallel-size",
     "it is a field of the spec: --set=parallel.tp=V"},
    {"run --tensor_model_parallel_size 2 @/small", 2, "unknown option --tensor_model_parallel_size", "parallel.tp"},
    {"run @/small --num-layers=4", 2, "unknown option --num-layers",
     "there are fields of the spec: --set=model.gpt.layers=V or --set=model.llama.layers=V"},
    {"run @/small --deepspeed_config=ds.json", 2, "unknown option --deepspeed_config", "the spec is an argument"},
    {"run @/small --backend=nccl", 2, "unknown option --backend", "here it is --fabric=FABRIC"},
    {"run @/small --output_dir=x", 2, "unknown option --output_dir", "here it is --out=DIR"},
    {"run @/small --dry-run", 2, "unknown option --dry-run", "here it is --check"},
    {"predict @/small --tp=2", 2, "unknown option --tp", "it is a field of the spec: --set=parallel.tp=V"},
    {"predict @/small --nodes=2", 2, "unknown option --nodes", "--set=fabric.simulated.nodes=N"},
    {"memory --model=gpt2-124m", 2, "unknown option --model", "--set=model.preset=gpt2-124m"},
    {"predict @/small --cluster=dgx-h100", 2, "unknown option --cluster", "--set=fabric.simulated.cluster=dgx-h100"},
    {"launch --ranks=2 -- twofold run @/small", 2, "cannot start the command \"twofold\"", "leave \"twofold\" out"},
    {"launch --ranks=2 -- python3 train.py", 2, "cannot start the command \"python3\"",
     "or --program=python3 for a program"},
    {"memory @/small --zero-stage=3", 2, "unknown option --zero-stage", "--set=parallel.sharding=V"},
    {"plan --num-nodes=2", 2, "unknown option --num-nodes", "here it is --nodes=N"},
    {"plan --gpus 8", 2, "unknown option --gpus", "here it is --ranks=N"},
};

// ---- fields and values ----
const Row kValues[] = {
    {"run @/small --check --fabric=MPI", 2, "--fabric=MPI: unknown fabric", "did you mean mpi"},
    {"run @/small --check --set=parallel.sharding=FSDP", 2, "\"FSDP\" is not a value", "did you mean FULL_SHARD?"},
    {"run @/small --check --set=parallel.sharding=DDP", 2, "\"DDP\" is not a value", "did you mean NO_SHARD?"},
    {"run @/small --check --set=parallel.schedule=1F1B", 2, "\"1F1B\" is not a value", "did you mean ONE_F_ONE_B?"},
    {"run @/small --check --set=device=GPU", 2, "\"GPU\" is not a value", "did you mean CUDA?"},
    {"run @/small --check --set=train.precision.parameter=bfloat16", 2, "\"bfloat16\" is not a value",
     "did you mean BF16?"},
    {"run @/small --check --set=network.background=0.5", 2, "\"network\" is not a field", "`twofold spec network`"},
    {"run @/small --check --set=model.sequence=64", 2, "\"sequence\" is not a field",
     "; there are model.gpt.sequence, model.llama.sequence and model.moe.llama.sequence"},
    {"run @/small --check --set=parallel.micro_batch=4", 2, "\"micro_batch\" is not a field",
     "; there is train.micro_batch"},
    {"run @/small --check --set=train.batch_size=8", 2, "\"batch_size\" is not a field",
     "; there are train.micro_batch and train.global_batch"},
    {"run @/small --check --set=zero_stage=3", 2, "\"zero_stage\" is not a field", "; there is parallel.sharding"},
    {"spec parallel.micro_batch", 2, "\"micro_batch\" is not a field of parallel", "; there is train.micro_batch"},
    {"init @/first.json", 2, "init writes text format, since JSON has no comments", "/first.textproto"},
    {"topology show no-such.textproto", 2, "\"no-such.textproto\" cannot be read: No such file or directory", ""},
    {"run @/small --check --set=parallel.tpp=2", 2, "\"tpp\" is not a field", "did you mean pp or tp?"},
    {"run @/small --check --set=parallel.dp=many", 2, "many", "whole number"},
    {"run @/small --check --set=parallel.dp=0", 2, "parallel.dp: 0", "1"},
    {"run @/small --check --set=train.steps=-3", 2, "train.steps: -3", "1"},
    {"run @/small --check --set=train", 2, "train", "="},
    {"run @/small --check --set=", 2, "--set", "="},
    {"run @/small --check --set=model.preset=gpt2-124", 2, "gpt2-124", "did you mean gpt2-124m"},
    {"run @/small --check --set=fabric.simulated.cluster=dgx-h1000", 2, "dgx-h1000", "dgx-h100"},
    {"run @/fsdp --check", 2, "\"FSDP\" is not a value of this field", "did you mean FULL_SHARD?"},
    {"run @/twice --check", 2, "twice", "once"},
};

// ---- paths, encodings ----
const Row kFiles[] = {
    {"run @/none --check", 2, "/none: cannot be read: No such file", "give the path of a spec"},
    {"run @/folder --check", 2, "/folder: cannot be read", "folder"},
    {"run @/dangling --check", 2, "/dangling: cannot be read", "No such file"},
    {"run @/other --check", 2, "/other: cannot be read: No such file", "/other.json?"},
    {"memory gpt2-124m", 2, "gpt2-124m: cannot be read", "twofold init my.textproto --model=gpt2-124m"},
    {"run '' --check", 2, "cannot be read: No such file", "give the path of a spec"},
    {"run @/small/deeper --check", 2, "/small/deeper: cannot be read", "Not a directory"},
    {"run @/file --check", 2, "model", "preset"},
    {"run @/binary --check", 2, "/binary:1:1: byte 0 is \\x00", "write text in UTF-8"},
    {"run @/latin1 --check", 2, "\\xe9", "UTF-8"},
    {"run @/utf16 --check", 2, "/utf16:1:1: byte 0 is \\xff", "write text in UTF-8"},
    {"run @/open --check", 2, "/open:", "}"},
    {"run @/small --quiet --out=@/file", 2, "--out: ", "give a folder that this user may write to"},
    {"run @/small --quiet --out=@/file/deeper", 2, "--out: ", "give a folder that this user may write to"},
    {"run @/small --quiet --out=/proc/nothing", 2, "--out: /proc/nothing", "give a folder that this user may write to"},
    {"run @/small --quiet --out=@/run '--set=train.checkpoint={path: \"/proc/no\"}' --fabric=in_memory", 2,
     "train.checkpoint.path", "give a folder that this user may write to"},
    {"topology show dgx-h100 --out=/proc/x.svg", 2, "--out=/proc/x.svg: cannot be written",
     "use a file in a folder that this user may write to"},
    {"compare @/folder @/folder", 2, "/folder/report.json", "give a folder that `twofold run` wrote"},
    {"report @/none", 2, "/none", "expected the folder of a run"},
    {"run @/none.json --check", 2, "/none.json: cannot be read: No such file", ".textproto or .json"},
    {"run @/cut.json --check", 2, "/cut.json:2:1: syntax error while parsing object key - unexpected end of input",
     "a spec in JSON is { \"field\": value"},
    {"run @/typo.json --check", 2, "/typo.json: train.stps: \"stps\" is not a field", "did you mean steps?"},
    {"run @/small --check --set=%@/none", 2, "--set=@", "give the path of a spec"},
    {"run @/small --check --set=%@/typo.json", 2, "/typo.json: train.stps", "did you mean steps?"},
    {"init @/small", 2, "/small: exists; init overwrites nothing", "give another name"},
    {"init @/none/first", 2, "cannot be written", "use a file in a folder"},
    {"man --out=@/file", 2, "--out: ", "give a folder that this user may write to"},
};

void Expect(const Row& row, int status, const std::string& out, const std::string& err) {
  EXPECT_EQ(status, row.status) << row.arguments << "\n" << err;
  EXPECT_THAT(err, HasSubstr("twofold: error: ")) << row.arguments;
  EXPECT_THAT(err, HasSubstr(row.cause)) << row.arguments;
  EXPECT_THAT(err, HasSubstr(row.remedy)) << row.arguments;
  EXPECT_EQ(out, "") << row.arguments;
  for (const char c : err) EXPECT_TRUE(c == '\n' || (c & 0x80) != 0 || c >= ' ') << row.arguments;
}

TEST_F(BadInput, OfFlags) {
  for (const Row& row : kFlags) {
    const int status = Run(Filled(row.arguments));
    Expect(row, status, out_, err_);
  }
}

TEST_F(BadInput, OfOtherPrograms) {
  for (const Row& row : kOthers) {
    const int status = Run(Filled(row.arguments));
    Expect(row, status, out_, err_);
    EXPECT_THAT(err_, Not(HasSubstr("known: "))) << "the name is known: " << row.arguments;
  }
}

TEST_F(BadInput, OfValues) {
  for (const Row& row : kValues) {
    const int status = Run(Filled(row.arguments));
    Expect(row, status, out_, err_);
  }
}

TEST_F(BadInput, OfFiles) {
  for (const Row& row : kFiles) {
    const int status = Run(Filled(row.arguments));
    Expect(row, status, out_, err_);
  }
}

// A disk that is full, a folder that cannot be written to: small file systems of this process alone.
TEST_F(BadInput, OfDisks) {
  const auto run = [&](const std::string& mount, const std::string& arguments) {
    const std::string command = Filled(StrCat("mkdir -p @/disk && unshare -m bash -c '", mount, " && exec ",
                                              TWOFOLD_PROGRAM, " ", arguments, "' >@/stdout 2>@/stderr"));
    const int status = RunShell(command);
    out_ = ReadAll(At("stdout"));
    err_ = ReadAll(At("stderr"));
    return WEXITSTATUS(status);
  };
  if (run("mount -t tmpfs none @/disk", "--version") != 0) GTEST_SKIP() << "cannot mount: " << err_;
  EXPECT_EQ(run("mount -t tmpfs -o size=4k none @/disk", "run @/small --quiet --out=@/disk/run"), 1);
  EXPECT_THAT(err_, HasSubstr("No space left on device"));
  EXPECT_THAT(out_, HasSubstr("step time")) << "the summary is printed";
  EXPECT_EQ(run("mount -t tmpfs -o ro none @/disk", "run @/small --quiet --out=@/disk/run"), 2);
  EXPECT_THAT(err_, HasSubstr("Read-only file system; give a folder that this user may write to"));
  EXPECT_EQ(out_, "") << "before the work";
  EXPECT_EQ(run("mount -t tmpfs -o ro none @/disk", "sweep @/small --vary=train.steps=1,2 --out=@/disk/run"), 2);
  EXPECT_THAT(err_, HasSubstr("Read-only file system"));
  EXPECT_EQ(run("mount -t tmpfs -o ro none @/disk", "calibrate --out=@/disk/p.textproto"), 2);
  EXPECT_THAT(err_, HasSubstr("Read-only file system"));
}

// Without a home, a language, or standard streams.
TEST_F(BadInput, OfSurroundings) {
  const auto shell = [&](const std::string& command) {
    const int status = RunShell(Filled(command));
    err_ = ReadAll(At("stderr"));
    return WEXITSTATUS(status);
  };
  const std::string program = TWOFOLD_PROGRAM;
  EXPECT_EQ(shell(StrCat("env -i ", program, " run @/small --quiet --out=@/run >@/stdout 2>@/stderr")), 0) << err_;
  EXPECT_EQ(shell(StrCat("env -u HOME LC_ALL=xx_YY.UTF-8 ", program, " memory @/small >@/stdout 2>@/stderr")), 0)
      << err_;
  EXPECT_EQ(shell(StrCat("HOME=/proc/none TMPDIR=/proc/none ", program, " predict @/small >@/stdout 2>@/stderr")), 0)
      << err_;
  EXPECT_EQ(shell(StrCat(program, " list models >/dev/full 2>@/stderr")), 1);
  EXPECT_THAT(err_, HasSubstr("stdout: cannot be written: No space left on device"));
  EXPECT_EQ(shell(StrCat(program, " help bench >&- 2>@/stderr")), 1);
  EXPECT_THAT(err_, HasSubstr("stdout: cannot be written: Bad file descriptor"));
  for (const char* command : {"list models", "help bench", "completion bash", "man run", "memory @/small"}) {
    shell(StrCat("(", program, " ", command, " 2>@/stderr; echo $? >@/status) | head -1 >/dev/null"));
    EXPECT_EQ(err_, "") << command;
  }
}

// Each ends by the signal, or soon and with status 1; with it end its processes.
TEST_F(BadInput, OfSignals) {
  struct {
    std::vector<std::string> words;
    int signal, status;
  } const kRows[] = {
      {{"run", At("small"), "--set=train.steps=2000000", "--fabric=in_memory", StrCat("--out=", At("run"))},
       SIGTERM,
       1},
      {{"run", At("small"), "--set=train.steps=2000000", "--fabric=in_memory", StrCat("--out=", At("run"))},
       SIGUSR1,
       1},
      {{"bench", "all_reduce", "-n", "1000000"}, SIGTERM, 1},
      {{"bench", "all_reduce", "-n", "1000000"}, SIGINT, 1},
  };
  for (const auto& row : kRows) {
    std::vector<std::string> words = row.words;
    words.insert(words.begin(), TWOFOLD_PROGRAM);
    test::Child child(words);
    const std::string threads = StrCat("/proc/", child.pid(), "/task");
    AwaitThat([&] { return std::distance(fs::directory_iterator(threads), fs::directory_iterator()) > 2; }, "ranks");
    child.Signal(row.signal);
    EXPECT_EQ(child.Wait(), row.status) << row.words[0] << ", signal " << row.signal << ": " << child.Output();
    EXPECT_THAT(child.Output(), HasSubstr("interrupt")) << row.words[0];
  }
}

}  // namespace program_bad_input_test
}  // namespace twofold
