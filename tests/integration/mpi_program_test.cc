// Training on MPI and on Gloo, through the program: the losses of the in-memory fabric, the memory that was predicted.
// Each case starts processes, which takes a second or two: the gate has each model, layout, axis and number of ranks,
// all of them in no more than a few; --full has all.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tests/integration/models.h"
#include "tests/integration/program.h"
#include "tests/seed.h"

namespace twofold {
namespace mpi_program_test {

using ::testing::HasSubstr;

constexpr auto& kGpt = test::kTinyGpt;
constexpr auto& kMlp = test::kTinyMlp;
constexpr auto& kLlama = test::kTinyLlama;
constexpr char kProfile[] = "fabric { simulated { profile: \"tests/integration/tiny.profile.textproto\" } }\n";

struct Case {
  const char* name;
  const char* model;
  int ranks, parts;
  const char* precision;
  const char* parallel = "bucket_mib: 0.01";
  const char* train = "";
  int model_ranks = 1;  // that share one copy of the model
  const char* fabric = "mpi";
  int dp() const { return ranks / model_ranks; }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class OnProcesses : public Program, public ::testing::WithParamInterface<Case> {
 protected:
  void ExpectLosses();
  void ExpectMemory();
  std::string spec_;
};

TEST_P(OnProcesses, TrainsAsInMemoryInThePredictedBytes) {
  const Case& c = GetParam();
  spec_ =
      Write("small.textproto", StrCat(c.model, "train { steps: 20 micro_batch: 2 global_batch: ", 2 * c.dp() * c.parts,
                                      " clip_norm: 1 precision { parameter: ", c.precision, " } ", c.train,
                                      " }\nparallel { dp: ", c.dp(), " ", c.parallel, " }\n", kProfile));
  ASSERT_EQ(Run(StrCat("launch --ranks=", c.ranks, " --fabric=", c.fabric, " -- run ", spec_,
                       " --quiet --out=", At("processes"))),
            0)
      << err_;
  ExpectLosses();
  ExpectMemory();
}

bool AllF32(std::string_view precision) { return precision == "F32"; }

// Of the in-memory fabric.
void OnProcesses::ExpectLosses() {
  ASSERT_EQ(Run(StrCat("run ", spec_, " --quiet --fabric=in_memory --out=", At("threads"))), 0) << err_;
  const nlohmann::json processes = Report(At("processes")), threads = Report(At("threads"));
  EXPECT_EQ(processes["fabric"], GetParam().fabric);
  ASSERT_EQ(processes["steps"].size(), 20u);
  double largest = 0;
  for (size_t i = 0; i < 20; ++i) {
    const double a = processes["steps"][i]["loss"], b = threads["steps"][i]["loss"];
    largest = std::max(largest, std::abs(a - b) / b);
  }
  RecordProperty("largest_relative_difference", StrCat(largest));
  EXPECT_LT(largest, AllF32(GetParam().precision) ? 1e-5 : 2e-2);
  EXPECT_NE(processes["steps"][0]["loss"], processes["steps"][19]["loss"]);
}

// Predicted, and replayed.
void OnProcesses::ExpectMemory() {
  ASSERT_EQ(Run(StrCat("run ", spec_, " --quiet --out=", At("predicted"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("memory ", spec_, " --out=", At("replayed"))), 0) << err_;
  const nlohmann::json predicted = Report(At("predicted"))["ranks"], measured = Report(At("processes"))["ranks"];
  EXPECT_EQ(Report(At("replayed"))["ranks"], predicted);
  ASSERT_EQ(predicted.size(), measured.size());
  ASSERT_EQ(static_cast<int>(measured.size()), GetParam().ranks);
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_GT(measured[r]["peak_bytes"], 0);
    EXPECT_EQ(predicted[r]["peak_bytes"], measured[r]["peak_bytes"]) << "rank " << r;
    EXPECT_EQ(predicted[r]["reserved_bytes"], measured[r]["reserved_bytes"]) << "rank " << r;
    EXPECT_EQ(predicted[r]["categories"], measured[r]["categories"]) << "rank " << r;
    EXPECT_EQ(predicted[r]["host_reserved_bytes"], measured[r]["host_reserved_bytes"]) << "rank " << r;
    EXPECT_EQ(predicted[r]["host_categories"], measured[r]["host_categories"]) << "rank " << r;
    EXPECT_GT(measured[r]["outside_ledger_bytes"], 0) << "the library's own memory is seen apart";
  }
}

// All with --full, else those that are named.
auto Some(std::initializer_list<std::string_view> names, std::vector<Case> all) {
  if (!Full())
    std::erase_if(all, [&](const Case& c) { return std::find(names.begin(), names.end(), c.name) == names.end(); });
  return ::testing::ValuesIn(all);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, OnProcesses,
    Some({"Gpt4Parts", "Mlp3", "Gpt2Bf16", "Llama1", "Cnn2", "CnnSync3", "GptStored2"},
         {Case{"Gpt2", kGpt, 2, 1, "F32"}, Case{"Gpt4", kGpt, 4, 1, "F32"}, Case{"Gpt4Parts", kGpt, 4, 3, "F32"},
          Case{"Mlp2", kMlp, 2, 1, "F32"}, Case{"Mlp4", kMlp, 4, 2, "F32"}, Case{"Mlp3", kMlp, 3, 1, "F32"},
          Case{"Gpt2Bf16", kGpt, 2, 1, "BF16"}, Case{"Llama1", kLlama, 1, 2, "F32"},
          Case{"Llama2", kLlama, 2, 1, "F32"}, Case{"Llama3", kLlama, 3, 1, "F32"}, Case{"Llama4", kLlama, 4, 1, "F32"},
          Case{"Cnn1", test::kTinyCnns[0].model, 1, 2, "F32"}, Case{"Cnn2", test::kTinyCnns[0].model, 2, 2, "F32"},
          Case{"Cnn3", test::kTinyCnns[0].model, 3, 1, "F32"}, Case{"Cnn4", test::kTinyCnns[0].model, 4, 1, "F32"},
          Case{"CnnSync2", test::kTinyCnns[1].model, 2, 2, "F32"},
          Case{"CnnSync3", test::kTinyCnns[1].model, 3, 1, "F32"},
          Case{"CnnSync4", test::kTinyCnns[1].model, 4, 1, "F32"},
          Case{"GptStored2", test::kTinyVariants[1].model, 2, 1, "F32"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Layouts, with what else changes memory.
constexpr char kUnfused[] = "model { gpt { layers: 3 hidden: 16 heads: 2 sequence: 8 } attention: UNFUSED }\n";
constexpr char kMixed[] = "BF16 gradient: F32 reduce: BF16", kMixedGradient[] = "BF16 gradient: F32";
INSTANTIATE_TEST_SUITE_P(
    Layouts, OnProcesses,
    Some({"Zero1On4", "Zero2On2", "Zero3On4Parts", "OffloadOn2", "HybridOn4Mixed"},
         {Case{"Zero1On2", kUnfused, 2, 1, "F32", "sharding: ZERO_1"},
          Case{"Zero1On4", kUnfused, 4, 4, kMixed, "sharding: ZERO_1", "activation_checkpointing {}"},
          Case{"Zero2On2", kUnfused, 2, 4, kMixed, "sharding: ZERO_2",
               "activation_checkpointing { recompute: SELECTIVE }"},
          Case{"Zero2On4", kLlama, 4, 4, "F32", "sharding: ZERO_2", "activation_checkpointing {}"},
          Case{"Zero3On2", kUnfused, 2, 4, "F32", "sharding: ZERO_3", "activation_checkpointing {}"},
          Case{"Zero3On4", kUnfused, 4, 1, kMixed, "sharding: ZERO_3",
               "activation_checkpointing { recompute: SELECTIVE }"},
          Case{"Zero3On4Parts", kLlama, 4, 4, "F32", "sharding: ZERO_3 prefetch: 2 backward_prefetch: BACKWARD_POST"},
          Case{"OffloadOn2", kUnfused, 2, 4, kMixed, "sharding: ZERO_3 offload: OFFLOAD_ALL"},
          Case{"OffloadOptimizerOn2", kUnfused, 2, 1, "F32", "offload: OFFLOAD_OPTIMIZER"},
          Case{"HybridOn4", kUnfused, 4, 4, "F32",
               "sharding: HYBRID_SHARD shard_group: 2 reduce_every_micro_batch: false"},
          Case{"HybridOn4Mixed", kLlama, 4, 1, kMixed, "sharding: HYBRID_SHARD shard_group: 2",
               "activation_checkpointing {}"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Axes of model parallelism and hybrids of them.
constexpr char kDeep[] = "model { gpt { layers: 4 hidden: 16 heads: 4 vocab: 259 sequence: 16 } }\n";
constexpr char kDeepLlama[] =
    "model { llama { layers: 4 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 vocab: 259 sequence: 16 } }\n";
constexpr char kDeepMoe[] =
    "model { moe { llama { layers: 4 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 16 } experts: 4 "
    "capacity_factor: 2 every: 2 } }\n";
INSTANTIATE_TEST_SUITE_P(
    ModelParallel, OnProcesses,
    Some({"TpSp4", "Cp4", "Interleaved2", "ZeroBubble4", "Ep2Tp2", "Pp2Dp2Tp2Zero1"},
         {Case{"Tp2", kDeep, 2, 2, "F32", "tp: 2", "", 2}, Case{"Tp4", kDeepLlama, 4, 2, "F32", "tp: 4", "", 4},
          Case{"TpSp4", kDeepLlama, 4, 2, "F32", "tp: 4 sequence_parallel: true", "activation_checkpointing {}", 4},
          Case{"Cp2", kDeepLlama, 2, 2, "F32", "cp: 2", "", 2}, Case{"Cp4", kDeep, 4, 2, "F32", "cp: 4", "", 4},
          Case{"Ep4", kDeepMoe, 4, 2, "F32", "ep: 4"},
          Case{"GPipe2", kDeep, 2, 4, "F32", "pp: 2 schedule: GPIPE", "", 2},
          Case{"OneFOneB4", kDeepLlama, 4, 6, "F32", "pp: 4", "activation_checkpointing {}", 4},
          Case{"Interleaved2", kDeep, 2, 4, "F32", "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", "", 2},
          Case{"ZeroBubble4", kDeep, 4, 6, "F32", "pp: 4 schedule: ZERO_BUBBLE_H1", "", 4},
          Case{"Tp2Dp2Zero3", kDeep, 4, 2, kMixed, "tp: 2 sharding: ZERO_3", "", 2},
          Case{"Pp2Tp2", kDeepLlama, 4, 4, "F32", "pp: 2 tp: 2 sequence_parallel: true", "", 4},
          Case{"Pp2Dp2Zero1", kDeep, 4, 4, kMixed, "pp: 2 sharding: ZERO_1", "activation_checkpointing {}", 2},
          Case{"Cp2Dp2", kDeepLlama, 4, 2, "F32", "cp: 2 sharding: ZERO_2", "", 2},
          Case{"Ep2Tp2", kDeepMoe, 4, 2, "F32", "ep: 2 tp: 2", "", 2},
          Case{"Pp2Dp2Tp2Zero1", kDeep, 8, 2, "F32", "pp: 2 tp: 2 sharding: ZERO_1", "", 4}}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Gloo, OnProcesses,
    Some({"Zero3On4Parts", "Ep2Tp2", "Pp2Dp2Tp2Zero1"},
         {Case{"Mlp3", kMlp, 3, 1, "F32", "", "", 1, "gloo"}, Case{"Gpt2Bf16", kGpt, 2, 1, "BF16", "", "", 1, "gloo"},
          Case{"CnnSync3", test::kTinyCnns[1].model, 3, 1, "F32", "", "", 1, "gloo"},
          Case{"Zero1On4", kUnfused, 4, 4, kMixed, "sharding: ZERO_1", "activation_checkpointing {}", 1, "gloo"},
          Case{"Zero2On4", kLlama, 4, 4, "F32", "sharding: ZERO_2", "", 1, "gloo"},
          Case{"Zero3On4Parts", kLlama, 4, 4, "F32", "sharding: ZERO_3 prefetch: 2", "", 1, "gloo"},
          Case{"HybridOn4", kUnfused, 4, 4, "F32", "sharding: HYBRID_SHARD shard_group: 2", "", 1, "gloo"},
          Case{"TpSp4", kDeepLlama, 4, 2, "F32", "tp: 4 sequence_parallel: true", "", 4, "gloo"},
          Case{"Cp4", kDeep, 4, 2, "F32", "cp: 4", "", 4, "gloo"},
          Case{"ZeroBubble4", kDeep, 4, 6, "F32", "pp: 4 schedule: ZERO_BUBBLE_H1", "", 4, "gloo"},
          Case{"Ep2Tp2", kDeepMoe, 4, 2, "F32", "ep: 2 tp: 2", "", 2, "gloo"},
          Case{"OneBit", kUnfused, 2, 2, "F32", "sharding: ZERO_2 compression { one_bit {} }", "", 1, "gloo"},
          Case{"Pp2Dp2Tp2Zero1", kDeep, 8, 2, "F32", "pp: 2 tp: 2 sharding: ZERO_1", "", 4, "gloo"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Every compression under every layout, in two types.
std::vector<Case> Compressions() {
  static const auto* texts = new std::deque<std::string>([] {
    std::deque<std::string> all;  // in pairs: name, parallel
    for (const auto& [name, codec] :
         {std::pair("Quantize", "quantize { bits: 4 stochastic: true }"), std::pair("OneBit", "one_bit {}"),
          std::pair("TopK", "top_k { density: 0.05 }"), std::pair("RandomK", "random_k { density: 0.1 }"),
          std::pair("PowerSgd", "power_sgd { rank: 2 start_step: 2 }")}) {
      for (const char* layout : {"NO_SHARD", "ZERO_1", "ZERO_2", "ZERO_3"}) {
        std::string label = layout;
        std::erase(label, '_');
        all.push_back(StrCat(name, label));
        all.push_back(StrCat("sharding: ", layout, " compression { ", codec, " }"));
      }
    }
    all.push_back("ZeroPlusPlus");
    all.push_back(
        "sharding: ZERO_3 zero_plus_plus { quantized_weights: true secondary_shard: 2 quantized_gradients: true }");
    return all;
  }());
  std::vector<Case> cases;
  for (size_t i = 0; i < texts->size(); i += 2) {
    const char *name = (*texts)[i].c_str(), *parallel = (*texts)[i + 1].c_str();
    const bool zero = std::string_view(name) == "ZeroPlusPlus", f32 = i % 4 == 0;
    cases.push_back({name, kUnfused, zero ? 4 : 2, 2, f32 ? "F32" : kMixedGradient, parallel});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Compressions, OnProcesses, Some({"OneBitZERO2", "ZeroPlusPlus"}, Compressions()),
                         [](const auto& info) { return std::string(info.param.name); });

class ProgramOnGloo : public Program {};

TEST_F(ProgramOnGloo, BenchesWithoutWrongResults) {
  for (const char* operation : {"all_reduce", "reduce_scatter", "all_to_all", "send_recv"}) {
    ASSERT_EQ(
        Run(StrCat("launch --ranks=3 --fabric=gloo -- bench ", operation, " --json -b 6K -e 24M -f 64 -n 1 -w 1")), 0)
        << err_;
    const nlohmann::json bench = nlohmann::json::parse(out_);
    EXPECT_EQ(bench["fabric"], "gloo");
    EXPECT_EQ(bench["out_of_bounds"], 0) << operation;
    EXPECT_EQ(bench["results"].size(), 3u) << operation;
  }
}

TEST_F(ProgramOnGloo, RefusesWhatItCannotDo) {
  const std::string spec = Write("small.textproto", StrCat(kMlp, "parallel { dp: 2 }\n"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --fabric=gloo")), 2);
  EXPECT_THAT(err_, HasSubstr("`twofold launch --ranks=2 --fabric=gloo -- ...`"));
  EXPECT_EQ(Run(StrCat("launch --ranks=2 --fabric=gloo -- run ", spec, " --set=device=CUDA")), 2);
  EXPECT_THAT(err_, HasSubstr("device: CUDA does not work with fabric.gloo"));
}

class ProgramOnMpi : public Program {};

TEST_F(ProgramOnMpi, RefusesTheWrongNumberOfProcesses) {
  const std::string spec = Write("small.textproto", StrCat(kMlp, "parallel { dp: 2 }\n"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --fabric=mpi")), 2);
  EXPECT_THAT(err_, HasSubstr("2 ranks are needed, but this process was started without an MPI launcher"));
  EXPECT_THAT(err_, HasSubstr("twofold launch --ranks=2 --fabric=mpi -- ...`"));
  EXPECT_EQ(Run(StrCat("launch --ranks=3 -- run ", spec)), 2);
  EXPECT_THAT(err_, ::testing::StartsWith("twofold: error: --ranks=3, but the spec has 2 ranks"))
      << "told once, by launch";
  EXPECT_THAT(err_, HasSubstr("use --ranks=2, or change the spec's"));
  const std::string by_hand = StrCat("RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ", TWOFOLD_PROGRAM,
                                     " run ", spec, " --fabric=gloo > ", At("stdout"), " 2> ", At("stderr"));
  EXPECT_EQ(WEXITSTATUS(RunShell(by_hand)), 2);
  EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("3 processes were started; start 2"));
}

TEST_F(ProgramOnMpi, SaysThatItsLauncherIsNoneOfMpi) {
  const std::string task =
      "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=2 "
      "SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=node1 ";
  for (const char* ranks : {"2", "1"}) {
    const std::string spec = Write("small.textproto", StrCat(kMlp, "parallel { dp: ", ranks, " }\n"));
    const std::string by_srun =
        StrCat(task, TWOFOLD_PROGRAM, " run ", spec, " --fabric=mpi > ", At("stdout"), " 2> ", At("stderr"));
    EXPECT_EQ(WEXITSTATUS(RunShell(by_srun)), 2) << "two processes are not one rank";
    EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("what started this process (Slurm's srun) does not tell MPI so"));
    EXPECT_THAT(ReadAll(At("stderr")), HasSubstr(StrCat("`srun --mpi=pmix -n ", ranks, " twofold ...`")));
  }
}

TEST_F(ProgramOnMpi, OneRankNeedsNoLauncher) {
  const std::string spec = Write("small.textproto", kMlp);
  EXPECT_EQ(Run(StrCat("run ", spec, " --fabric=mpi --quiet --out=", At("one"))), 0) << err_;
  EXPECT_EQ(Report(At("one"))["world_size"], 1);
}

TEST_F(ProgramOnMpi, LaunchRefusesWhatItCannotLaunch) {
  EXPECT_EQ(Run("launch --ranks=2 --fabric=in_memory -- run x"), 2);
  EXPECT_THAT(err_, HasSubstr("its ranks are not processes"));
  EXPECT_EQ(Run("launch --ranks=0 -- run x"), 2);
  EXPECT_EQ(Run("launch --ranks=2 --fabric=pigeon -- run x"), 2);
  EXPECT_THAT(err_, HasSubstr("pigeon"));
  EXPECT_EQ(Run("launch --ranks=2"), 2);
  EXPECT_EQ(Run("launch --ranks=2 --print -- run x"), 0);
  EXPECT_THAT(out_, HasSubstr("run x --fabric=mpi"));
}

// The weights stay as they began, so that the first validation is the best one.
TEST_F(ProgramOnMpi, StopsEarlyAtTheStepOfTheInMemoryFabric) {
  const std::string spec =
      Write("stop.textproto", StrCat(kMlp, "data { synthetic { samples: 100 } }\ntrain { steps: 30 micro_batch: 4 ",
                                     "optimizer { sgd { lr: 1e-30 } } validation { every_steps: 2 samples: 13 ",
                                     "batch: 5 patience: 3 } }\nparallel { dp: 3 }\n", kProfile));
  ASSERT_EQ(Run(StrCat("launch --ranks=3 -- run ", spec, " --quiet --out=", At("mpi"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --fabric=in_memory --out=", At("threads"))), 0) << err_;
  const nlohmann::json mpi = Report(At("mpi")), threads = Report(At("threads"));
  EXPECT_EQ(mpi["steps"].size(), 8u);
  EXPECT_EQ(threads["steps"].size(), 8u);
  EXPECT_EQ(mpi["stopped_early"], true);
  ASSERT_EQ(mpi["validations"].size(), 4u);
  for (size_t v = 0; v < 4; ++v) {
    const double a = mpi["validations"][v]["loss"], b = threads["validations"][v]["loss"];
    EXPECT_NEAR(a, b, 1e-5 * b);
    EXPECT_EQ(mpi["validations"][v]["accuracy"], threads["validations"][v]["accuracy"]);
  }
}

// The rank that says it first is chance.
TEST_F(ProgramOnMpi, RunsOutOfItsBudgetWhereItWasPredicted) {
  const std::string spec =
      Write("budget.textproto", StrCat(kGpt, "train { steps: 2 micro_batch: 512 }\n",
                                       "parallel { dp: 2 }\nmemory { budget_mib: 24 }\n", kProfile));
  const auto message = [this](const std::string& folder) {
    std::string text = Report(folder)["message"];
    EXPECT_THAT(text, ::testing::MatchesRegex(
                          "rank [01]: out of memory: asked for .* bytes of .* with .* live and .* reserved .*"));
    return text.substr(text.find(':'));
  };
  EXPECT_EQ(Run(StrCat("memory ", spec, " --out=", At("replayed"))), 3) << err_;
  EXPECT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("predicted"))), 3) << err_;
  EXPECT_EQ(Run(StrCat("launch --ranks=2 -- run ", spec, " --quiet --out=", At("mpi"))), 1) << err_;
  EXPECT_EQ(Report(At("mpi"))["outcome"], "OUT_OF_MEMORY");
  EXPECT_EQ(message(At("replayed")), message(At("predicted")));
  EXPECT_EQ(message(At("mpi")), message(At("predicted")));
}

TEST_F(ProgramOnMpi, EmulatesDevices) {
  const std::string spec =
      Write("emulated.textproto", StrCat(kMlp, "train { steps: 5 }\nparallel { dp: 2 }\ndevice: EMULATED\n",
                                         "emulated { cluster: \"star-a100\" speed: 0.01 }\n"));
  ASSERT_EQ(Run(StrCat("launch --ranks=2 -- run ", spec, " --quiet --out=", At("mpi"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --fabric=simulated --out=", At("predicted"))), 0) << err_;
  const nlohmann::json mpi = Report(At("mpi")), predicted = Report(At("predicted"));
  EXPECT_GE(mpi["median_step_seconds"], 0.5 * static_cast<double>(predicted["median_step_seconds"]));
  EXPECT_EQ(mpi["ranks"][0]["peak_bytes"], predicted["ranks"][0]["peak_bytes"]);
  EXPECT_EQ(mpi["device"], "emulated A100-80GB SXM");
}

TEST_F(ProgramOnMpi, SweepStartsTheRanks) {
  const std::string spec =
      Write("small.textproto", StrCat(kMlp, "train { steps: 3 global_batch: 4 micro_batch: 4 }\n"));
  ASSERT_EQ(Run(StrCat("sweep ", spec, " --vary=parallel.dp=1,2 --scaling=strong --fabric=mpi --measured --repeats=1 ",
                       "--out=", At("sweep"))),
            0)
      << out_ << err_;
  for (const int ranks : {1, 2}) {
    const nlohmann::json report = Report(At(StrCat("sweep/parallel.dp=", ranks, "/measured-1")));
    EXPECT_EQ(report["fabric"], "mpi");
    EXPECT_EQ(report["world_size"], ranks);
  }
}

TEST_F(ProgramOnMpi, BenchesWithoutWrongResults) {
  EXPECT_EQ(Run("launch --ranks=3 -- bench all_reduce -b 4 -e 64K -f 16 -n 5"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("mpi: 3 ranks, measured"));
  EXPECT_THAT(out_, HasSubstr("# Out of bounds values : 0 OK"));
}

TEST_F(ProgramOnMpi, CalibratesMessagesForPredictions) {
  const std::string profile = At("p.textproto");
  fs::copy("tests/integration/tiny.profile.textproto", profile);
  ASSERT_EQ(Run(StrCat("launch --ranks=2 -- calibrate --quick --out=", profile)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("mpi between 2 ranks: latency"));
  const std::string text = ReadAll(profile);
  for (const char* field :
       {"message_passing", "fabric: \"mpi\"", "latency_s", "overhead_s", "eager_bytes", "kernels"}) {
    EXPECT_THAT(text, HasSubstr(field));
  }
  const std::string spec = Write("small.textproto", StrCat(kMlp, "parallel { dp: 2 }\n"));
  const std::string simulate = StrCat("run ", spec, " --quiet --notes=full --fabric=simulated --out=", At("s"),
                                      " --set=fabric.simulated.profile=", profile, " --set=fabric.simulated.links=");
  ASSERT_EQ(Run(simulate + "mpi"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("links are those that the profile measured on fabric mpi"));
  EXPECT_EQ(Run(simulate + "gloo"), 2);
  EXPECT_THAT(err_, HasSubstr("fabric.simulated.links: \"gloo\": the profile has no such links"));
  EXPECT_EQ(Run(StrCat("calibrate --fabric=mpi --out=", profile)), 2);
  EXPECT_THAT(err_, HasSubstr("needs at least two processes"));
}

}  // namespace mpi_program_test
}  // namespace twofold
