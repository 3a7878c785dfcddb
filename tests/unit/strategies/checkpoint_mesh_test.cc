// A checkpoint of any mesh loads into any other: every rank then holds what the whole has at its places, and what
// reducers keep has the sum that it had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/quantize.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"
#include "tests/scratch_folder.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold::checkpoint {
namespace checkpoint_mesh_test {

namespace fs = std::filesystem;
using nn::ShardLayout;

constexpr int64_t kHidden = 6, kFfn = 12, kHeads = 4, kKeys = 2, kWidth = 2, kVocab = 10, kExperts = 4, kBlocks = 2;

// Has parameters, and computes nothing.
class Holder : public nn::Module {
 public:
  Tensor Forward(nn::Context&, const Tensor& x, nn::Saved&) override { return x; }
  Tensor BackwardInput(nn::Context&, Tensor dy, nn::Saved&) override { return dy; }
  void BackwardWeights(nn::Context&, nn::Saved&) override {}
  std::string_view kind() const override { return "holder"; }
  template <class M>
  M* Add(std::string name, std::unique_ptr<M> module) {
    return AddChild(std::move(name), std::move(module));
  }
  nn::Parameter* Have(const std::string& name, const ShardLayout& layout, nn::Role role = nn::Role::kMatrix) {
    int64_t elements = 0;
    for (const ShardLayout::Part& part : layout.parts) elements += part.where.count;
    nn::Parameter* p = AddParameter(name, Shape{elements}, DType::kF32, {}, role);
    p->set_shard_layout(layout);
    return p;
  }
};

// Every way in which ranks share a parameter: rows and columns of matrices, heads (keys of which several ranks have the
// same), a table with padding, which the last stage has, too, and experts.
std::unique_ptr<nn::Module> PartOf(const MeshShape& mesh, const MeshPlace& at) {
  const int64_t tp = mesh.tp, t = at.tp;
  auto model = std::make_unique<Holder>();
  if (at.pp == 0 || at.pp == mesh.pp - 1) {
    const int64_t rows = (kVocab + tp - 1) / tp, first = std::min(kVocab, t * rows),
                  there = std::min(rows, kVocab - first);
    std::vector<ShardLayout::Range> table;
    const nn::GroupTag both = mesh.pp > 1 ? kEmbeddingTag : nn::GroupTag{};
    if (there > 0) {
      table.push_back({.first = first, .count = there, .owned = at.pp == 0, .holders = both, .partial = mesh.pp > 1});
    }
    if (there < rows) table.push_back({.first = -1, .count = rows - there});
    model->Have("table", ShardLayout::Rows(Shape{kVocab, kHidden}, table));
  }
  for (int64_t b = at.pp * kBlocks / mesh.pp; b < (at.pp + 1) * kBlocks / mesh.pp; ++b) {
    Holder* block = model->Add(StrCat("block", b), std::make_unique<Holder>());
    block->Have("norm", ShardLayout::Whole(Shape{kHidden}, t == 0, kTensorTag, /*partial=*/true), nn::Role::kNorm);
    block->Have("bias", ShardLayout::Whole(Shape{kHidden}, t == 0, kTensorTag, /*partial=*/false), nn::Role::kNorm);
    const int64_t queries = kHeads / tp * kWidth, keys = std::max<int64_t>(1, kKeys / tp) * kWidth,
                  share = std::max<int64_t>(1, tp / kKeys);
    const int64_t key = t / share * keys, all_queries = kHeads * kWidth, all_keys = kKeys * kWidth;
    const bool owned = t % share == 0;
    block->Have("qkv", ShardLayout::Rows(Shape{all_queries + 2 * all_keys, kHidden},
                                         {{t * queries, queries},
                                          {all_queries + key, keys, owned},
                                          {all_queries + all_keys + key, keys, owned}}));
    block->Have("row", ShardLayout::Along(Shape{kHidden, kFfn}, 1, t * kFfn / tp, kFfn / tp));
    const int64_t experts = kExperts / mesh.ep;
    block
        ->Have("experts",
               ShardLayout::Rows(Shape{kExperts, 3}, {{at.dp % mesh.ep * experts, experts, t == 0, kTensorTag}}))
        ->set_replicas(kExpertsTag);
  }
  model->Finalize();
  return model;
}

float ValueOf(const std::string& name, int64_t place) {
  uint32_t value = 17;
  for (const char c : name) value = value * 31 + static_cast<unsigned char>(c);
  return static_cast<float>(value % 1000 * 1000 + static_cast<uint32_t>(place));
}

std::vector<LocalPiece> AllHeld(ParameterLayout& layout, const optim::Optimizer& optimizer) {
  std::vector<LocalPiece> held = LocalParameters(layout);
  for (LocalPiece& state : LocalStates(layout, optimizer)) held.push_back(std::move(state));
  return held;
}

void Put(Device& device, Tensor data, const std::vector<float>& values) {
  device.Upload(data, [&](std::span<std::byte> out) { std::memcpy(out.data(), values.data(), out.size()); });
}

struct Case {
  const char* name;
  MeshShape mesh;
  int stage = 0;  // of ZeRO
  int shard_group = 0;
};

std::unique_ptr<ParameterLayout> LayoutOf(nn::Context& ctx, DeviceMesh& mesh, const Case& c,
                                          const MakeReducer& make_reducer = {}) {
  auto model = PartOf(mesh.shape(), PlaceOf(mesh.shape(), mesh.world().rank()));
  const ReplicaGroups replicas(mesh.Group(MeshGroup::kReplicas),
                               {{kTensorTag, &mesh.Group(MeshGroup::kTp)},
                                {kKeyValueTag, nullptr},  // these are not summed here
                                {kEmbeddingTag, &mesh.Group(MeshGroup::kPp)},
                                {kExpertsTag, &mesh.Group(MeshGroup::kExpertReplicas)}});
  if (c.stage == 0)
    return std::make_unique<DistributedDataParallel>(ctx, OneChunk(std::move(model)), replicas, DdpOptions{},
                                                     make_reducer);
  return std::make_unique<ShardedDataParallel>(ctx, OneChunk(std::move(model)), replicas,
                                               ShardedOptions{.stage = static_cast<ShardedOptions::Stage>(c.stage),
                                                              .shard_group = c.shard_group,
                                                              .wrap = WrapByKind("holder")},
                                               make_reducer);
}

// The states of groups are those of one optimizer for all: they are saved with this one and loaded without groups.
std::unique_ptr<optim::Optimizer> InGroups() {
  std::vector<optim::RoleGroup> groups;
  groups.push_back({{nn::Role::kMatrix}, optim::MakeAdam({})});
  groups.push_back({{nn::Role::kNorm}, optim::MakeAdam({.lr = 0.1})});
  return optim::MakeGrouped(std::move(groups));
}

// Saves once with values that say where they belong.
void SaveOn(const Case& c, const SaveOptions& options) {
  test::ExpectOnRanks(c.mesh.size(), [&](RankContext& rank) {
    DeviceMesh mesh(rank.world(), c.mesh);
    nn::Context ctx{.device = rank.device(), .stream = rank.device().compute()};
    const auto layout = LayoutOf(ctx, mesh, c);
    const auto optimizer = InGroups();
    optimizer->Attach(ctx, layout->Slices());
    for (const LocalPiece& h : AllHeld(*layout, *optimizer)) {
      std::vector<float> values;
      for (int64_t i = 0; i < h.data.numel(); ++i) values.push_back(ValueOf(h.name, h.where.IndexOf(i)));
      Put(rank.device(), h.data, values);
    }
    Saver saver(rank, mesh, *layout, *optimizer, options,
                {.world_size = c.mesh.size(), .kind = options.full ? "FULL" : "SHARDED"});
    saver.Save(1, {});
    saver.Finish();
    return std::string();
  });
}

void LoadOn(const Case& c, const Opened& opened) {
  test::ExpectOnRanks(c.mesh.size(), [&](RankContext& rank) {
    DeviceMesh mesh(rank.world(), c.mesh);
    nn::Context ctx{.device = rank.device(), .stream = rank.device().compute()};
    const auto layout = LayoutOf(ctx, mesh, c);
    const auto optimizer = optim::MakeAdam({});
    optimizer->Attach(ctx, layout->Slices());
    EXPECT_TRUE(Load(rank, opened, *layout, *optimizer).ok());
    std::string wrong;
    for (const LocalPiece& h : AllHeld(*layout, *optimizer)) {
      std::vector<float> values(static_cast<size_t>(h.data.numel()));
      rank.device().Download(h.data, std::as_writable_bytes(std::span(values)));
      for (int64_t i = 0; i < h.data.numel(); ++i) {
        const int64_t place = h.where.IndexOf(i);
        const float is = values[static_cast<size_t>(i)], right = ValueOf(h.name, place);
        if (is != right)
          absl::StrAppend(&wrong, "rank ", rank.rank(), ": ", h.name, "[", place, "] is ", is, ", not ", right, "\n");
      }
    }
    return wrong;
  });
}

const Case kCases[] = {{"One", {}},
                       {"Dp4", {.dp = 4}},
                       {"Tp2Dp2", {.dp = 2, .tp = 2}},
                       {"Pp2Dp2", {.pp = 2, .dp = 2}},
                       {"Pp2Tp2", {.pp = 2, .tp = 2}},
                       {"Tp4", {.tp = 4}},
                       {"Ep2Dp4", {.dp = 4, .ep = 2}},
                       {"Pp2Ep2Dp2Tp2", {.pp = 2, .dp = 2, .tp = 2, .ep = 2}},
                       {"Cp2Tp2TpOutside", {.cp = 2, .tp = 2, .order = {Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp}}},
                       {"Zero3Tp2Dp2", {.dp = 2, .tp = 2}, 3},
                       {"Zero1Pp2Dp2Tp2", {.pp = 2, .dp = 2, .tp = 2}, 1},
                       {"Zero3Dp3", {.dp = 3}, 3},
                       {"HybridTp2Dp4", {.dp = 4, .tp = 2}, 3, 2}};

class AnyMesh : public ::testing::TestWithParam<Case> {};

TEST_P(AnyMesh, LoadsIntoAnyOther) {
  for (const bool full : {false, true}) {
    for (const bool asynchronous : {false, true}) {
      const std::string folder = test::ScratchFolder("meshes");
      SaveOn(GetParam(), {.folder = folder, .full = full, .asynchronous = asynchronous});
      const absl::StatusOr<Opened> opened = Open(folder);
      ASSERT_TRUE(opened.ok()) << opened.status();
      std::set<std::string> files;
      for (const auto& file : fs::directory_iterator(opened->path)) files.insert(file.path().filename());
      if (full)
        EXPECT_THAT(files, ::testing::ElementsAre("manifest.json", "model.safetensors", "optimizer.safetensors"));
      else
        EXPECT_EQ(files.size(), static_cast<size_t>(GetParam().mesh.size()) + 1);
      for (const Case& other : kCases) {
        SCOPED_TRACE(StrCat(full ? "full" : "sharded", asynchronous ? ", asynchronous" : "", ", into ", other.name));
        LoadOn(other, *opened);
        if (HasFailure()) return;
      }
      fs::remove_all(folder);
    }
  }
}

// The sums over all ranks of what reducers keep, by parameter and place; and of the weights with which they count.
struct Kept {
  std::map<std::pair<std::string, int64_t>, std::pair<double, double>> sums;
  std::mutex mutex;
  // The layout must exist while its states are read.
  void Add(Device& device, const ParameterLayout& layout) {
    const std::lock_guard lock(mutex);
    for (const NamedState& kept : layout.ReducerStates()) {
      std::vector<float> values(static_cast<size_t>(kept.state.tensor.numel()));
      device.Download(kept.state.tensor, std::as_writable_bytes(std::span(values)));
      for (const NamedState::Elements& e : kept.holds) {
        for (int64_t i = 0; i < e.where.count; ++i) {
          auto& [sum, weight] = sums[{e.parameter->name(), e.where.IndexOf(i)}];
          sum += e.weight * static_cast<double>(values[static_cast<size_t>(e.at + i)]);
          if (kept.state.stage == 0) weight += e.weight / e.total;
        }
      }
    }
  }
};

void OnReducers(const Case& c,
                const std::function<void(RankContext&, nn::Context&, DeviceMesh&, ParameterLayout&)>& visit) {
  test::ExpectOnRanks(c.mesh.size(), [&](RankContext& rank) {
    DeviceMesh mesh(rank.world(), c.mesh);
    nn::Context ctx{.device = rank.device(), .stream = rank.device().compute()};
    visit(rank, ctx, mesh, *LayoutOf(ctx, mesh, c, CodedReducers(QuantizeCodecs({.block = 16}), {})));
    return std::string();
  });
}

// On every rank each value is another one, in every stage.
void SaveReducers(const Case& c, const SaveOptions& options, Kept& kept) {
  OnReducers(c, [&](RankContext& rank, nn::Context& ctx, DeviceMesh& mesh, ParameterLayout& layout) {
    const auto optimizer = optim::MakeAdam({});
    optimizer->Attach(ctx, layout.Slices());
    for (const NamedState& state : layout.ReducerStates()) {
      std::vector<float> values;
      for (int64_t i = 0; i < state.state.tensor.numel(); ++i)
        values.push_back(ValueOf(StrCat(state.name, rank.rank()), i) / 1e6f);
      Put(rank.device(), state.state.tensor, values);
    }
    kept.Add(rank.device(), layout);
    Saver saver(rank, mesh, layout, *optimizer, options,
                {.world_size = c.mesh.size(), .kind = options.full ? "FULL" : "SHARDED"});
    saver.Save(1, {});
    saver.Finish();
  });
}

TEST_P(AnyMesh, KeepsTheSumsOfReducers) {
  if (GetParam().mesh.dp * GetParam().mesh.cp == 1) return;  // nothing is reduced
  for (const bool full : {false, true}) {
    const std::string folder = test::ScratchFolder("mesh_reducers");
    Kept was;
    SaveReducers(GetParam(), {.folder = folder, .full = full}, was);
    ASSERT_FALSE(was.sums.empty());
    for (const auto& [place, sum] : was.sums) EXPECT_NEAR(sum.second, 1, 1e-12) << place.first << " " << place.second;
    const absl::StatusOr<Opened> opened = Open(folder);
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const Case& other : kCases) {
      SCOPED_TRACE(StrCat(full ? "full" : "sharded", ", into ", other.name));
      Kept is;
      OnReducers(other, [&](RankContext& rank, nn::Context& ctx, DeviceMesh&, ParameterLayout& layout) {
        const auto optimizer = optim::MakeAdam({});
        optimizer->Attach(ctx, layout.Slices());
        EXPECT_TRUE(Load(rank, *opened, layout, *optimizer).ok());
        is.Add(rank.device(), layout);
      });
      for (const auto& [place, sum] : is.sums) {
        const auto before = was.sums.find(place);
        if (before == was.sums.end()) continue;  // one rank alone trained it
        ASSERT_NEAR(sum.first, before->second.first, 1e-5) << place.first << " " << place.second;
      }
      EXPECT_EQ(is.sums.empty(), other.mesh.dp * other.mesh.cp == 1);
    }
    fs::remove_all(folder);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, AnyMesh, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace checkpoint_mesh_test
}  // namespace twofold::checkpoint
