// An optimizer whose states have shapes of their own, saved and loaded: as Adafactor (Shazeer and Stern 2018), it keeps
// statistics of each matrix's rows and columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/data_parallel/ddp.h"
#include "tests/scratch_folder.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold::checkpoint {
namespace factored_state_test {

// Keeps "row" [rows] and "column" [columns] of a matrix, and nothing of other parameters, which descend.
class Factored final : public optim::Optimizer {
 public:
  void Attach(nn::Context& ctx, std::span<const optim::Slice> slices) override {
    slices_.assign(slices.begin(), slices.end());
    for (const optim::Slice& slice : slices_) {
      std::vector<optim::State>& states = states_.emplace_back();
      for (const optim::StateShape& shape : StatesOf(*slice.parts[0].parameter)) {
        states.push_back({.name = shape.name,
                          .tensor = ctx.device.NewTensor(shape.whole, DType::kF32, Category::kOptimizerState),
                          .parameter = slice.parts[0].parameter,
                          .whole = shape.whole,
                          .where = Region::Whole(shape.whole.numel())});
        ctx.Launch(ops::Fill{.out = states.back().tensor, .value = 0});
      }
    }
  }
  void Step(nn::Context&, double lr, const Tensor&) override {
    ++updates_;
    for (size_t s = 0; s < slices_.size(); ++s) {
      float* w = slices_[s].data.data<float>();
      const float* g = slices_[s].gradient.data<float>();
      const int64_t numel = slices_[s].data.numel(), rows = states_[s].empty() ? 1 : states_[s][0].whole[0],
                    columns = numel / rows;
      const auto rate = static_cast<float>(lr);
      if (states_[s].empty()) {
        for (int64_t i = 0; i < numel; ++i) w[i] -= rate * g[i];
        continue;
      }
      float *row = states_[s][0].tensor.data<float>(), *column = states_[s][1].tensor.data<float>();
      for (int64_t i = 0; i < numel; ++i) {
        row[i / columns] += 0.1f * g[i] * g[i];
        column[i % columns] += 0.1f * g[i] * g[i];
      }
      for (int64_t i = 0; i < numel; ++i) w[i] -= rate * g[i] / std::sqrt(row[i / columns] + column[i % columns]);
    }
  }
  double learning_rate() const override { return 0.1; }
  std::vector<optim::State> StateOf(size_t i) const override { return states_[i]; }
  std::vector<optim::StateShape> StatesOf(const nn::Parameter& parameter) const override {
    if (parameter.role() != nn::Role::kMatrix) return {};
    const Shape& whole = parameter.shard_layout().whole;
    return {{"row", Shape{whole[0]}}, {"column", Shape{whole[1]}}};
  }
  int64_t updates() const override { return updates_; }
  void set_updates(int64_t updates) override { updates_ = updates; }

 private:
  std::vector<optim::Slice> slices_;
  std::vector<std::vector<optim::State>> states_;
  int64_t updates_ = 0;
};

class TwoMatrices : public nn::Module {
 public:
  TwoMatrices() {
    AddParameter("wide", Shape{3, 70}, DType::kF32, {nn::Init::kNormal, 0, 1});
    AddParameter("bias", Shape{5}, DType::kF32, {}, nn::Role::kBias);
    AddParameter("tall", Shape{90, 2}, DType::kF32, {nn::Init::kNormal, 0, 1});
    Finalize();
  }
  Tensor Forward(nn::Context&, const Tensor& x, nn::Saved&) override { return x; }
  Tensor BackwardInput(nn::Context&, Tensor dy, nn::Saved&) override { return dy; }
  void BackwardWeights(nn::Context&, nn::Saved&) override {}
  std::string_view kind() const override { return "two_matrices"; }
};

// One rank of a job whose gradients follow from the step.
struct Job {
  explicit Job(RankContext& rank)
      : mesh(rank.world(), {.dp = rank.world_size()}),
        ctx{.device = rank.device(), .stream = rank.device().compute(), .seed = 3},
        layout(ctx, OneChunk(std::make_unique<TwoMatrices>()), mesh.Group(MeshGroup::kReplicas), DdpOptions{}) {
    optimizer.Attach(ctx, layout.Slices());
  }
  void Step() {
    for (const nn::Parameter* p : layout.Parameters()) {
      for (int64_t i = 0; i < p->numel(); ++i)
        p->gradient().data<float>()[i] = static_cast<float>((i * 7 + 3 * optimizer.updates()) % 11) - 4.5f;
    }
    optimizer.Step(ctx, 0.1, Tensor());
  }
  // Everything it holds, by name.
  std::string Text() {
    std::string text;
    std::vector<LocalPiece> held = LocalParameters(layout);
    for (LocalPiece& state : LocalStates(layout, optimizer)) held.push_back(std::move(state));
    for (const LocalPiece& h : held) {
      StrAppend(&text, h.name, h.shape.ToString());
      text.append(static_cast<const char*>(h.data.raw()), static_cast<size_t>(h.data.bytes().value()));
    }
    return text;
  }

  DeviceMesh mesh;
  nn::Context ctx;
  DistributedDataParallel layout;
  Factored optimizer;
};

TEST(FactoredState, IsSavedAndLoadedToTheBit) {
  const std::vector<std::string> uninterrupted = test::OnRanks(1, [](RankContext& rank) {
    Job job(rank);
    for (int step = 0; step < 3; ++step) job.Step();
    return job.Text();
  });
  EXPECT_THAT(uninterrupted[0], ::testing::HasSubstr("optimizer.row.tall[90]"));
  EXPECT_THAT(uninterrupted[0], ::testing::HasSubstr("optimizer.column.tall[2]"));
  for (const bool full : {false, true}) {
    for (const int savers : {1, 2, 3}) {
      const std::string folder = test::ScratchFolder("factored");
      test::ExpectOnRanks(savers, [&](RankContext& rank) {
        Job job(rank);
        job.Step();
        job.Step();
        Saver saver(rank, job.mesh, job.layout, job.optimizer, {.folder = folder, .full = full},
                    {.world_size = savers, .kind = full ? "FULL" : "SHARDED"});
        saver.Save(2, {});
        saver.Finish();
        return std::string();
      });
      const absl::StatusOr<Opened> opened = Open(folder);
      ASSERT_TRUE(opened.ok()) << opened.status();
      const Reader reader(opened->path, opened->manifest);
      ASSERT_NE(reader.Find("optimizer.row.wide"), nullptr);
      EXPECT_EQ(reader.Find("optimizer.row.wide")->shape, Shape{3});
      EXPECT_EQ(reader.Find("optimizer.column.wide")->shape, Shape{70});
      EXPECT_EQ(reader.Find("optimizer.row.bias"), nullptr);
      for (const int loaders : {1, 2}) {
        EXPECT_THAT(test::OnRanks(loaders,
                                  [&](RankContext& rank) {
                                    Job job(rank);
                                    EXPECT_TRUE(Load(rank, *opened, job.layout, job.optimizer).ok());
                                    job.Step();
                                    return job.Text();
                                  }),
                    ::testing::Each(uninterrupted[0]))
            << savers << " to " << loaders;
      }
    }
  }
}

}  // namespace factored_state_test
}  // namespace twofold::checkpoint
