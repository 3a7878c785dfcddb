// Runs that go on from checkpoints of other numbers of ranks, other layouts and other meshes.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/checkpoint_runs.h"
#include "tests/integration/run_spec.h"
#include "tests/seed.h"

namespace twofold {
namespace checkpoint_layouts_test {

using namespace checkpoint_runs;
using test::kInMemory;
using test::Losses;
using test::RunText;
namespace fs = std::filesystem;

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

}  // namespace checkpoint_layouts_test
}  // namespace twofold
