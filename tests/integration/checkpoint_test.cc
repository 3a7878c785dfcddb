// Runs that go on from checkpoints: against runs that never stopped, over other numbers of ranks, under other layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/machine.h"
#include "core/io/block_file.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/safetensors.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"
#include "tests/seed.h"

namespace twofold {
namespace checkpoint_test {

using test::kInMemory;
using test::Losses;
using test::RunText;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kSteps = 6, kStop = 3;
constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 dropout: 0.1 } }\n";
constexpr char kPlainGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";

std::string Folder(const std::string& name) { return test::ScratchFolder(name); }

struct Layout {
  const char* name;
  const char* parallel;
  int least = 1;  // ranks, and a divisor of their number
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }
// A new layout is a row here.
constexpr Layout kLayouts[] = {{"NoShard", "bucket_mib: 0.002"},
                               {"Zero1", "sharding: ZERO_1"},
                               {"Zero2", "sharding: ZERO_2"},
                               {"Zero3", "sharding: ZERO_3"},
                               {"Hybrid", "sharding: HYBRID_SHARD shard_group: 2", 2},
                               {"Offloaded", "sharding: ZERO_3 offload: OFFLOAD_ALL"}};

std::string Text(const std::string& model, int ranks, const Layout& layout, const std::string& train,
                 const std::string& fabric = kInMemory) {
  return StrCat(model, "train { steps: ", kSteps, " global_batch: 12 micro_batch: 1 seed: 3 ", train,
                " }\nparallel { dp: ", ranks, " ", layout.parallel, " }\n", fabric);
}
std::string Saving(const std::string& folder, const std::string& more = "") {
  return StrCat("checkpoint { path: \"", folder, "\" every_steps: ", kStop, " keep_last: 0 ", more, " }");
}
// Of the checkpoint after kStop steps.
std::string Resuming(const std::string& folder) { return StrCat("resume: \"", folder, "/000001-step-", kStop, "\""); }

std::vector<double> Tail(const std::vector<double>& losses) { return {losses.begin() + kStop, losses.end()}; }

// ---- The same run, stopped and gone on with ----

using Case = std::tuple<Layout, int, const char*>;
class Resumed : public ::testing::TestWithParam<Case> {};

TEST_P(Resumed, HasTheLossesOfARunThatNeverStopped) {
  const auto [layout, ranks, kind] = GetParam();
  if (ranks % layout.least != 0) GTEST_SKIP() << "needs groups of " << layout.least;
  const std::string folder = Folder(::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string("x"));
  fs::create_directories(folder);
  const auto whole = RunText(Text(kGpt, ranks, layout, ""));
  const auto saved = RunText(Text(kGpt, ranks, layout, Saving(folder, kind)));
  EXPECT_EQ(Losses(saved[0]), Losses(whole[0])) << "saving changes nothing";
  ASSERT_EQ(saved[0].checkpoints_size(), 2);
  EXPECT_EQ(saved[0].checkpoints(0).step(), kStop);
  EXPECT_EQ(checkpoint::List(folder).size(), 2u);
  const auto resumed = RunText(Text(kGpt, ranks, layout, Resuming(folder)));
  EXPECT_EQ(resumed[0].first_step(), kStop);
  EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
  fs::remove_all(folder);
}

constexpr char kSharded[] = "kind: SHARDED", kFull[] = "kind: FULL", kAsync[] = "kind: SHARDED asynchronous: true",
               kFullAsync[] = "kind: FULL asynchronous: true";
std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto [layout, ranks, kind] = info.param;
  return StrCat(layout.name, ranks,
                kind == kSharded ? "Sharded"
                : kind == kFull  ? "Full"
                : kind == kAsync ? "ShardedAsync"
                                 : "FullAsync");
}
// Every layout with every kind, on 3 or 4 ranks by turns; with --full on both.
std::vector<Case> ResumedCases() {
  std::vector<Case> cases;
  int turn = 0;
  for (const Layout& layout : kLayouts) {
    for (const char* kind : {kSharded, kFull, kAsync, kFullAsync}) {
      const int chosen = layout.least > 1 ? 4 : 3 + turn++ % 2;
      for (const int ranks : {3, 4}) {
        if (Full() || ranks == chosen) cases.push_back({layout, ranks, kind});
      }
    }
    ++turn;
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Layouts, Resumed, ::testing::ValuesIn(ResumedCases()), CaseName);

// ---- Other numbers of ranks, other layouts ----

class Resharded : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

// Where a layout has saved on so many ranks, once for all tests: whole tensors on 4, on others shards.
const std::string& SavedBy(const Layout& from, int ranks) {
  static auto& known = *new std::map<std::pair<std::string, int>, std::string>;
  const auto [it, is_new] = known.try_emplace({from.name, ranks});
  if (is_new) {
    it->second = Folder(StrCat("reshard", from.name, ranks));
    RunText(Text(kPlainGpt, ranks, from, Saving(it->second, ranks == 4 ? kFull : kSharded)));
  }
  return it->second;
}

TEST_P(Resharded, KeepsTheLossCurve) {
  const auto [from_place, to_place] = GetParam();
  const Layout &from = kLayouts[from_place], &to = kLayouts[to_place];
  static const auto& one = *new std::vector<double>(Losses(RunText(Text(kPlainGpt, 1, kLayouts[0], ""))[0]));
  std::vector<std::pair<int, int>> numbers;
  for (const auto& [ranks_from, ranks_to] : {std::pair{1, 4}, {4, 3}, {3, 2}, {2, 4}, {4, 2}}) {
    if (ranks_from % from.least == 0 && ranks_to % to.least == 0) numbers.push_back({ranks_from, ranks_to});
  }
  const size_t some = Full() ? numbers.size() : 2;  // by turns
  for (size_t i = 0; i < some; ++i) {
    const auto [ranks_from, ranks_to] = numbers[(from_place + to_place + 2 * i) % numbers.size()];
    const auto resumed = Losses(RunText(Text(kPlainGpt, ranks_to, to, Resuming(SavedBy(from, ranks_from))))[0]);
    ASSERT_EQ(resumed.size(), static_cast<size_t>(kSteps - kStop));
    for (size_t step = 0; step < resumed.size(); ++step) {
      EXPECT_NEAR(resumed[step], one[kStop + step], 1e-4 * one[kStop + step])
          << ranks_from << " to " << ranks_to << ", step " << kStop + step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resharded,
                         ::testing::Combine(::testing::Range(size_t{0}, std::size(kLayouts)),
                                            ::testing::Range(size_t{0}, std::size(kLayouts))),
                         [](const auto& info) {
                           return StrCat(kLayouts[std::get<0>(info.param)].name, "To",
                                         kLayouts[std::get<1>(info.param)].name);
                         });

// ---- Other meshes ----

struct Mesh {
  const char* name;
  const char* parallel;
  const char* kind = kSharded;  // what it saves
};
constexpr Mesh kMeshes[] = {{"Dp4", "dp: 4"},
                            {"Tp2Dp2", "tp: 2 dp: 2", kFull},
                            {"Pp2Dp2", "pp: 2 dp: 2", kAsync},
                            {"Pp2Tp2", "pp: 2 tp: 2 sequence_parallel: true"},
                            {"Tp4", "tp: 4", kFullAsync},
                            {"InterleavedTp2", "pp: 2 tp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
                            {"Cp2Dp2", "cp: 2 dp: 2"},
                            {"Zero3Tp2", "tp: 2 dp: 2 sharding: ZERO_3"},
                            {"Zero1Pp2", "pp: 2 dp: 2 sharding: ZERO_1", kFull}};
// Keys and values have fewer heads than there are ranks of tp; the table is tied, and its rows are no multiple of 4.
constexpr char kLlama[] =
    "model { llama { layers: 4 hidden: 16 heads: 4 kv_heads: 2 ffn: 32 vocab: 257 sequence: 8 tied_embeddings: true } "
    "}\n";
constexpr char kMoe[] =
    "model { moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 32 vocab: 257 sequence: 8 } experts: 4 "
    "capacity_factor: 4 } }\n";

std::string OnMesh(const std::string& model, const Mesh& mesh, const std::string& train) {
  return StrCat(model, "train { steps: ", kSteps,
                " global_batch: 8 micro_batch: 1 seed: 3 optimizer { adamw { lr: 1e-3 } } clip_norm: 1 ", train,
                " }\nparallel { ", mesh.parallel, " }\n", kInMemory);
}

void ExpectNear(const std::vector<double>& resumed, const std::vector<double>& one, std::string_view what) {
  ASSERT_EQ(resumed.size(), static_cast<size_t>(kSteps - kStop)) << what;
  for (size_t i = 0; i < resumed.size(); ++i)
    EXPECT_NEAR(resumed[i], one[kStop + i], 1e-4 * one[kStop + i]) << what << ", step " << kStop + i;
}

class Remeshed : public ::testing::TestWithParam<size_t> {};

// To three of nine each, such that each is gone on to from three; with --full to all.
TEST_P(Remeshed, KeepsTheLossCurve) {
  const Mesh& from = kMeshes[GetParam()];
  static const auto& one = *new std::vector<double>(Losses(RunText(OnMesh(kLlama, {"One", ""}, ""))[0]));
  const std::string folder = Folder(StrCat("remesh", from.name));
  RunText(OnMesh(kLlama, from, Saving(folder, from.kind)));
  for (size_t to = 0; to < std::size(kMeshes); ++to) {
    if (!Full() && (GetParam() + to) % 3 != 0) continue;
    ExpectNear(Losses(RunText(OnMesh(kLlama, kMeshes[to], Resuming(folder)))[0]), one, kMeshes[to].name);
  }
  fs::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(Meshes, Remeshed, ::testing::Range(size_t{0}, std::size(kMeshes)),
                         [](const auto& info) { return std::string(kMeshes[info.param].name); });

TEST(RemeshedExperts, KeepTheLossCurve) {
  const Mesh one{"One", ""},
      meshes[] = {{"Ep2", "dp: 2 ep: 2"}, {"Ep2Dp4", "dp: 4 ep: 2", kFull}, {"Ep2Tp2", "dp: 2 ep: 2 tp: 2"}};
  const auto whole = Losses(RunText(OnMesh(kMoe, one, ""))[0]);
  for (const Mesh& from : meshes) {
    const std::string folder = Folder(StrCat("experts", from.name));
    RunText(OnMesh(kMoe, from, Saving(folder, from.kind)));
    for (const Mesh& to : meshes)
      ExpectNear(Losses(RunText(OnMesh(kMoe, to, Resuming(folder)))[0]), whole, StrCat(from.name, " to ", to.name));
    ExpectNear(Losses(RunText(OnMesh(kMoe, one, Resuming(folder)))[0]), whole, StrCat(from.name, " to one"));
    fs::remove_all(folder);
  }
}

// Stages and pairs of linear layers, and the running statistics of stages.
TEST(RemeshedLayers, KeepTheLossCurve) {
  const Mesh one{"One", ""},
      linear[] = {{"Pp3", "pp: 3", kFull}, {"Tp2Pp2", "tp: 2 pp: 2"}, {"Tp2Zero3", "tp: 2 dp: 2 sharding: ZERO_3"}},
      images[] = {{"Pp2", "pp: 2", kFull}, {"Pp4", "pp: 4"}, {"Pp2Zero1", "pp: 2 dp: 2 sharding: ZERO_1"}};
  const auto check = [&](const std::string& model, std::span<const Mesh> meshes) {
    const auto whole = Losses(RunText(OnMesh(model, one, ""))[0]);
    for (const Mesh& from : meshes) {
      const std::string folder = Folder(StrCat("layers", from.name));
      RunText(OnMesh(model, from, Saving(folder, from.kind)));
      for (const Mesh& to : meshes)
        ExpectNear(Losses(RunText(OnMesh(model, to, Resuming(folder)))[0]), whole, StrCat(from.name, " to ", to.name));
      ExpectNear(Losses(RunText(OnMesh(model, one, Resuming(folder)))[0]), whole, StrCat(from.name, " to one"));
      fs::remove_all(folder);
    }
  };
  check("model { mlp { inputs: 8 hidden: [16, 12, 16] classes: 5 } }\n", linear);
  check("model { cnn { height: 8 width: 8 widths: [4, 6] blocks: [2, 2] classes: 5 } }\n", images);
}

// What every layout saves of the same state, here of the initial values, is the same.
TEST(Checkpoints, AFullOneIsTheSameBytesWhateverWroteIt) {
  std::string first;
  for (const Layout& layout : kLayouts) {
    const std::string folder = Folder("bytes");
    const int ranks = 2;
    RunText(Text(kPlainGpt, ranks, layout, StrCat("optimizer { sgd { lr: 1e-300 } } ", Saving(folder, kFull))));
    const std::string path = checkpoint::List(folder).back().path + "/model.safetensors";
    const auto head = checkpoint::ReadSafetensorsHead(path);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_FALSE(fs::exists(checkpoint::List(folder).back().path + "/optimizer.safetensors"))
        << "plain SGD has no state";
    std::string bytes;
    std::ifstream in(path, std::ios::binary);
    for (const auto& [name, tensor] : head->tensors) {
      std::string part(static_cast<size_t>(tensor.bytes()), '\0');
      in.seekg(tensor.begin).read(part.data(), tensor.bytes());
      bytes += StrCat(name, tensor.shape.ToString()) + part;
    }
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << layout.name;
    fs::remove_all(folder);
  }
  EXPECT_THAT(first, HasSubstr("blocks.1"));
}

TEST(Checkpoints, GoOnInOtherElementTypes) {
  const std::string folder = Folder("types"), other = Folder("types_back");
  const std::string bf16 = "precision { parameter: BF16 } ";
  const auto f32 = Losses(RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(folder)))[0]);
  const auto narrow = RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(bf16, Resuming(folder))));
  for (int i = 0; i < kSteps - kStop; ++i)
    EXPECT_NEAR(Losses(narrow[0])[static_cast<size_t>(i)], f32[static_cast<size_t>(kStop + i)], 0.02);
  EXPECT_THAT(narrow[0].notes(), ::testing::Contains(HasSubstr("parameters in f32, this run has them in bf16")));
  // And back: the masters, not their rounded images, are what an f32 run goes on with.
  RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(bf16, Saving(other))));
  EXPECT_EQ(Losses(RunText(Text(kPlainGpt, 2, kLayouts[0], Resuming(other)))[0]).size(),
            static_cast<size_t>(kSteps - kStop));
  fs::remove_all(folder), fs::remove_all(other);
}

// Running statistics are averaged and saved; early stopping goes on counting.
TEST(Checkpoints, KeepBuffersAndPatience) {
  const std::string model = test::kTinyCnns[0].model;
  const std::string validated = "validation { every_steps: 1 samples: 24 patience: 40 } ";
  for (const Layout& layout : {kLayouts[0], kLayouts[3]}) {
    const std::string folder = Folder("buffers");
    const auto whole = RunText(Text(model, 2, layout, StrCat(validated, Saving(folder))));
    const auto resumed = RunText(Text(model, 2, layout, StrCat(validated, Resuming(folder))));
    EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
    ASSERT_EQ(resumed[0].validations_size(), kSteps - kStop);
    for (int i = 0; i < kSteps - kStop; ++i)
      EXPECT_EQ(resumed[0].validations(i).loss(), whole[0].validations(kStop + i).loss());
    const auto opened = checkpoint::Open(folder);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->manifest.metadata.scalars.count("validation.in_vain"), 1u);
    EXPECT_LE(opened->manifest.metadata.scalars.at("validation.best"), whole[0].validations(0).loss());
    fs::remove_all(folder);
  }
}

// Of the last checkpoint.
std::map<std::string, double> ScalarsIn(const std::string& folder) {
  const auto opened = checkpoint::Open(folder);
  return opened.ok() ? opened->manifest.metadata.scalars : std::map<std::string, double>();
}

// It doubles after four good steps: of the fourth, three were done before.
TEST(Checkpoints, KeepTheLossScale) {
  const std::string folder = Folder("scale"), other = Folder("scale_resumed");
  const std::string half = "precision { parameter: F16 loss_scale { dynamic { initial: 1024 growth_interval: 4 } } } ";
  const auto whole = RunText(Text(kGpt, 2, kLayouts[3], StrCat(half, Saving(folder))));
  const auto resumed = RunText(Text(kGpt, 2, kLayouts[3], StrCat(half, Resuming(folder), " ", Saving(other))));
  EXPECT_EQ(Losses(resumed[0]), Tail(Losses(whole[0])));
  EXPECT_EQ(ScalarsIn(other), ScalarsIn(folder));
  EXPECT_EQ(ScalarsIn(other)["loss_scale.scale"], 2048);
  fs::remove_all(folder), fs::remove_all(other);
}

// No validation after the first is better by 100: four in vain end the run after step 5, two of them before the
// checkpoint.
TEST(Checkpoints, KeepCountOfValidationsInVain) {
  const std::string folder = Folder("in_vain");
  const std::string validated = "validation { every_steps: 1 samples: 24 patience: 4 min_delta: 100 } ";
  const auto whole = RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(validated, Saving(folder))));
  EXPECT_EQ(whole[0].steps_size(), 5);
  EXPECT_EQ(RunText(Text(kPlainGpt, 2, kLayouts[0], StrCat(validated, Resuming(folder))))[0].steps_size(), 5 - kStop);
  fs::remove_all(folder);
}

TEST(Checkpoints, AreBitEqualOnTheSimulatedFabricAndCostItTheSameMemory) {
  for (const Layout& layout : kLayouts) {
    for (const char* kind : {layout.name == std::string("Zero2") ? kFullAsync : kSharded, kFull}) {
      const std::string folder = Folder("simulated"), other = Folder("measured");
      const auto real = RunText(Text(kPlainGpt, 2, layout, Saving(folder, kind), test::Simulated("REAL")));
      const auto measured = RunText(Text(kPlainGpt, 2, layout, Saving(other, kind)));
      const auto symbolic =
          RunText(Text(kPlainGpt, 2, layout, Saving(folder + "_none", kind), test::Simulated("SYMBOLIC")));
      EXPECT_EQ(Losses(real[0]), Losses(measured[0]));
      EXPECT_FALSE(fs::exists(folder + "_none"));
      EXPECT_THAT(symbolic[0].notes(), ::testing::Contains(HasSubstr("no checkpoint was written")));
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(symbolic[r].memory().peak_bytes(), measured[r].memory().peak_bytes())
            << layout.name << " " << kind << " rank " << r;
        EXPECT_EQ(symbolic[r].memory().reserved_bytes(), measured[r].memory().reserved_bytes())
            << layout.name << " " << kind;
        EXPECT_EQ(real[r].memory().peak_bytes(), measured[r].memory().peak_bytes()) << layout.name << " " << kind;
      }
      const auto resumed = RunText(Text(kPlainGpt, 2, layout, Resuming(folder)));
      EXPECT_EQ(Losses(resumed[0]), Tail(Losses(real[0])));
      const auto predicted = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), test::Simulated("SYMBOLIC")));
      EXPECT_EQ(predicted[0].steps_size(), kSteps - kStop);
      for (size_t r = 0; r < 2; ++r) {  // what rank 0 tells the others of the checkpoint, too
        EXPECT_EQ(predicted[r].memory().peak_bytes(), resumed[r].memory().peak_bytes())
            << layout.name << " " << kind << " rank " << r;
        EXPECT_EQ(predicted[r].memory().reserved_bytes(), resumed[r].memory().reserved_bytes())
            << layout.name << " " << kind << " rank " << r;
      }
      fs::remove_all(folder), fs::remove_all(other);
    }
  }
}

// ---- Without values ----

constexpr char kEmulated[] = "device: EMULATED\nemulated { cluster: \"star-a100\" speed: 1e6 }\n";

// Files of an emulated device are as large as those of one that computes, and so is the memory.
TEST(Emulated, SavesAndLoadsFilesOfRealSizes) {
  for (const auto& [layout, kind] : {std::pair(kLayouts[0], kSharded), {kLayouts[3], kFull}, {kLayouts[1], kAsync}}) {
    SCOPED_TRACE(StrCat(layout.name, " ", kind));
    const std::string folder = Folder("emulated"), other = Folder("computed");
    const std::string emulated = StrCat(kInMemory, kEmulated),
                      predicted = StrCat(test::Simulated("SYMBOLIC"), kEmulated);
    const auto saved = RunText(Text(kPlainGpt, 2, layout, Saving(folder, kind), emulated));
    const auto simulated = RunText(Text(kPlainGpt, 2, layout, Saving(folder + "_none", kind), predicted));
    RunText(Text(kPlainGpt, 2, layout, Saving(other, kind)));
    ASSERT_EQ(saved[0].checkpoints_size(), 2);
    ASSERT_EQ(simulated[0].checkpoints_size(), 2);
    const auto mine = checkpoint::Open(saved[0].checkpoints(0).path()),
               full = checkpoint::Open(other + "/000001-step-3");
    ASSERT_TRUE(mine.ok() && full.ok()) << mine.status() << full.status();
    EXPECT_FALSE(mine->manifest.metadata.has_values);
    EXPECT_TRUE(full->manifest.metadata.has_values);
    const auto tensors = [](const checkpoint::Opened& of) {
      std::vector<std::pair<std::string, std::string>> all;
      for (const checkpoint::Entry& e : of.manifest.contents.tensors) all.emplace_back(e.name, e.shape.ToString());
      return all;
    };
    EXPECT_EQ(tensors(*mine), tensors(*full));
    ASSERT_EQ(mine->manifest.contents.files.size(), full->manifest.contents.files.size());
    for (size_t f = 0; f < mine->manifest.contents.files.size(); ++f) {  // they differ in what their headers say
      EXPECT_NEAR(static_cast<double>(mine->manifest.contents.files[f].bytes),
                  static_cast<double>(full->manifest.contents.files[f].bytes), 64);
      const auto head = checkpoint::ReadSafetensorsHead(StrCat(mine->path, "/", mine->manifest.contents.files[f].name));
      ASSERT_TRUE(head.ok()) << head.status();
      EXPECT_EQ(head->metadata.at("values"), "not computed");
    }
    const auto resumed = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), emulated));
    EXPECT_EQ(resumed[0].first_step(), kStop);
    const auto foretold = RunText(Text(kPlainGpt, 2, layout, Resuming(folder), predicted));
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(simulated[r].memory().peak_bytes(), saved[r].memory().peak_bytes()) << "rank " << r;
      EXPECT_EQ(simulated[r].memory().reserved_bytes(), saved[r].memory().reserved_bytes()) << "rank " << r;
      EXPECT_EQ(foretold[r].memory().peak_bytes(), resumed[r].memory().peak_bytes()) << "rank " << r;
    }
    EXPECT_EQ(RunText(Text(kPlainGpt, 3, kLayouts[2], Resuming(folder), emulated))[0].steps_size(), kSteps - kStop);
    // Neither takes the other's files.
    const auto error = [&](const std::string& from, const std::string& fabric) {
      spec::Spec spec = test::Resolve(Text(kPlainGpt, 2, layout, Resuming(from), fabric));
      return std::string(test::RunResolved(spec).status.message());
    };
    EXPECT_THAT(error(folder, kInMemory), HasSubstr("has no values, because device: EMULATED computed none; use a "
                                                    "checkpoint of a run that computes"));
    EXPECT_THAT(error(other, emulated), HasSubstr("has values, but this run, with device: EMULATED, computes none; use "
                                                  "a checkpoint of a run with device: EMULATED"));
    fs::remove_all(folder), fs::remove_all(other);
  }
}

// Each of two ranks holds everything, and writes half of it.
TEST(Predicted, SavesAndLoadsTakeTheTimeOfTheStorage) {
  const std::string folder = Folder("predicted");
  RunText(Text(kPlainGpt, 2, kLayouts[0], Saving(folder)));
  const auto opened = checkpoint::Open(folder + "/000001-step-3");
  ASSERT_TRUE(opened.ok()) << opened.status();
  int64_t bytes = 0;
  for (const checkpoint::Entry& e : opened->manifest.contents.tensors) bytes += e.shape.numel() * ElementSize(e.dtype);
  const auto fabric = [](double write, double read) {
    return StrCat("fabric { simulated { cluster: \"star-a100\" storage { write_gbytes_per_second: ", write,
                  " read_gbytes_per_second: ", read, " } } }\n");
  };
  const auto run = [&](const std::string& kind) {
    return RunText(Text(kPlainGpt, 2, kLayouts[0], Saving(folder + "_none", kind), fabric(1e-4, 2e-4)))[0];
  };
  const report::RankRecord sync = run(kSharded), async = run(kAsync), full = run(kFull);
  ASSERT_EQ(sync.checkpoints_size(), 2);
  const double half = static_cast<double>(bytes) / 2 / 1e5;
  EXPECT_NEAR(sync.checkpoints(0).stood_still_seconds(), half, 0.01 * half);
  EXPECT_FALSE(sync.checkpoints(0).has_path());
  EXPECT_NEAR(full.checkpoints(0).stood_still_seconds(), 2 * half, 0.01 * half) << "rank 0 writes all of it";
  ASSERT_EQ(async.checkpoints_size(), 2);
  EXPECT_LT(async.checkpoints(0).stood_still_seconds(), 0.1 * half);
  EXPECT_GE(async.checkpoints(0).seconds(), half);
  const auto text = [&](double read) { return Text(kPlainGpt, 2, kLayouts[0], Resuming(folder), fabric(1, read)); };
  const auto slow = RunText(text(2e-4)), fast = RunText(text(1e6));
  EXPECT_NEAR(slow[0].trace_origin_seconds() - fast[0].trace_origin_seconds(), static_cast<double>(bytes) / 2e5,
              1e-3 * half);
  fs::remove_all(folder);
}

// ---- Refusals ----

class Refused : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = Folder("refused");
    RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(folder_)));
    checkpoint_ = checkpoint::List(folder_).back().path;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string ErrorOf(const std::string& text) {
    spec::Spec spec = test::Resolve(text);
    const RunResult result = test::RunResolved(spec);
    EXPECT_FALSE(result.status.ok()) << text;
    return std::string(result.status.message());
  }
  std::string Resume(const std::string& more = "", const char* model = kPlainGpt) {
    return Text(model, 2, kLayouts[0], StrCat(Resuming(folder_), " ", more));
  }
  std::string folder_, checkpoint_;
};

TEST_F(Refused, OtherModelsOptimizersAndLengths) {
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 2 hidden: 32 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr(checkpoint_), HasSubstr("tensor \"model."),
                               HasSubstr("[256, 16]; the model of this run has [256, 32]")));
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 3 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr("tensor \"model.blocks.2."),
                               HasSubstr("is not in this checkpoint; the model of this run has one")));
  EXPECT_THAT(ErrorOf(Resume("", "model { gpt { layers: 1 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n")),
              ::testing::AllOf(HasSubstr("blocks.1."), HasSubstr("the model of this run has no such tensor")));
  EXPECT_THAT(ErrorOf(Resume("optimizer { sgd { momentum: 0.9 } }")),
              ::testing::AllOf(HasSubstr("tensor \"optimizer.momentum_buffer."), HasSubstr("it was saved with adamw")));
  EXPECT_THAT(ErrorOf(Resume("optimizer { sgd {} }")),
              ::testing::AllOf(HasSubstr("tensor \"optimizer.exp_avg"),
                               HasSubstr("which was saved with adamw; train.optimizer sgd of this run")));
  EXPECT_THAT(ErrorOf(StrCat(kPlainGpt, "train { steps: 3 resume: \"", folder_, "/000001-step-3\" }", kInMemory)),
              HasSubstr("was saved after step 3, so train.steps = 3 leaves nothing to do"));
}

TEST_F(Refused, DamagedFiles) {
  const std::string file = checkpoint_ + "/rank-00001.safetensors";
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(size - 3).put('\x55');
  EXPECT_THAT(ErrorOf(Resume()), ::testing::AllOf(HasSubstr(file), HasSubstr("have changed since they were saved")));
  fs::resize_file(file, static_cast<uintmax_t>(size) - 1);
  EXPECT_THAT(ErrorOf(Resume()),
              HasSubstr(StrCat(file, ": has ", size - 1, " bytes, but had ", size, " when it was saved")));
  fs::remove(file);
  EXPECT_THAT(ErrorOf(Resume()), HasSubstr(StrCat(file, ": cannot be read")));
  // The latest good one is found past it.
  const auto opened = checkpoint::Open(folder_);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->manifest.metadata.step, kSteps);
}

// ---- Ranks that see other folders than rank 0, as on hosts whose disks are not shared ----

class Apart : public ::testing::Test {
 protected:
  void SetUp() override { RunText(Text(kPlainGpt, 2, kLayouts[3], Saving(both_))); }
  void TearDown() override {
    for (const std::string& folder : {both_, older_, other_}) fs::remove_all(folder);
  }
  static void Copy(const std::string& from, const std::string& to) {
    fs::create_directories(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }
  // Goes on for two steps more than were saved: rank r from the latest good checkpoint in the folder seen[r].
  RunResult Resume(const std::vector<std::string>& seen, spec::Spec& spec) {
    spec = test::Resolve(StrCat(kPlainGpt, "train { steps: ", kSteps + 2,
                                " global_batch: 12 micro_batch: 1 seed: 3 resume: \"", seen[0],
                                "\" }\nparallel { dp: 2 sharding: ZERO_3 }\nfabric { in_memory {} timeout_s: 5 }\n"));
    auto data = LoadTrainingData(spec, "test.textproto");
    EXPECT_TRUE(data.ok()) << data.status().message();
    std::vector<spec::Spec> specs(2, spec);
    for (size_t r = 0; r < 2; ++r) specs[r].mutable_train()->set_resume(seen[r]);
    return (*MakeFabric(spec))->Run(2, [&](RankContext& ctx) {
      return TrainRank(ctx, TrainingOptionsOf(specs[static_cast<size_t>(ctx.rank())]), data->samples());
    });
  }
  std::string ErrorOf(const std::vector<std::string>& seen) {
    spec::Spec spec;
    const RunResult result = Resume(seen, spec);
    EXPECT_FALSE(result.status.ok());
    return std::string(result.status.message());
  }
  std::vector<report::RankRecord> Records(const std::vector<std::string>& seen) {
    spec::Spec spec;
    const RunResult result = Resume(seen, spec);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    return test::RecordsOf(spec, result);
  }
  static std::string ManifestSum(const std::string& checkpoint) {
    std::ifstream in(checkpoint + "/manifest.json", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return absl::StrFormat("%016x", checkpoint::Checksum(std::as_bytes(std::span(text))));
  }

  const std::string both_ = Folder("both"), older_ = Folder("older"), other_ = Folder("other");
  static constexpr char kOlder[] = "/000001-step-3", kNewer[] = "/000002-step-6";
};

TEST_F(Apart, RanksGoOnFromWhatRank0Chose) {
  Copy(both_ + kOlder, older_ + kOlder);
  const std::vector<report::RankRecord> records = Records({older_, both_}), reference = Records({older_, older_});
  for (const report::RankRecord& record : records) {
    EXPECT_EQ(record.first_step(), kStop);
    EXPECT_EQ(Losses(record), Losses(reference[0]));
  }
}

TEST_F(Apart, RanksThatDoNotSeeItSaySo) {
  Copy(both_ + kOlder, older_ + kOlder);
  EXPECT_THAT(
      ErrorOf({both_, older_}),
      ::testing::AllOf(
          HasSubstr(StrCat("rank 1 on ", HostName(), ": train.resume: ", older_, kNewer)), HasSubstr("cannot be read"),
          HasSubstr(StrCat("rank 0 on ", HostName(), " resumes from ", both_, kNewer,
                           ", whose manifest.json has checksum ", ManifestSum(both_ + kNewer))),
          HasSubstr(StrCat("rank 1 finds no checkpoint there; its latest checkpoint is ", older_, kOlder))));
}

TEST_F(Apart, RanksThatSeeAnotherOfThatNameSaySo) {
  RunText(Text(kGpt, 2, kLayouts[3], Saving(other_)));  // with dropout
  EXPECT_THAT(
      ErrorOf({both_, other_}),
      ::testing::AllOf(HasSubstr(StrCat("rank 1 on ", HostName(), ": train.resume: ", other_, kNewer, "/rank-0000")),
                       HasSubstr("have changed since they were saved"),
                       HasSubstr(StrCat("rank 0 on ", HostName(), " resumes from ", both_, kNewer,
                                        ", whose manifest.json has checksum ", ManifestSum(both_ + kNewer))),
                       HasSubstr(StrCat("the manifest.json of rank 1 has checksum ", ManifestSum(other_ + kNewer)))));
}

// Its content comes from rank 0, whatever it has.
TEST_F(Apart, RankZeroAloneReadsTheManifest) {
  Copy(both_ + kNewer, other_ + kNewer);
  fs::remove(other_ + kNewer + "/manifest.json");
  const std::vector<report::RankRecord> records = Records({both_, other_}), reference = Records({both_, both_});
  EXPECT_EQ(Losses(records[1]), Losses(reference[0]));
  EXPECT_EQ(records[1].first_step(), kSteps);
}

// A disk that cannot be written to ends the run, and says so.
TEST(Checkpoints, SayWhatCouldNotBeWritten) {
  for (const char* kind : {kSharded, kFull, kAsync}) {
    spec::Spec spec = test::Resolve(Text(kPlainGpt, 2, kLayouts[3], Saving("/proc/no/such/place", kind)));
    const RunResult result = test::RunResolved(spec);
    EXPECT_THAT(std::string(result.status.message()),
                HasSubstr("rank 0: checkpoint: /proc/no/such/place: cannot be created"));
  }
}

}  // namespace checkpoint_test
}  // namespace twofold
