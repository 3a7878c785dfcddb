// Moving a training's state to ranks that divide it otherwise never takes room for a whole tensor: neither on the
// device nor on the host, from peers or from a checkpoint of either kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/nn/mlp_model.h"
#include "strategies/checkpoint/load.h"
#include "strategies/checkpoint/save.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/elastic/redistribute.h"
#include "tests/fuzz/allocations.h"
#include "tests/scratch_folder.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace resharding_test {

using checkpoint::LocalPiece;

// One weight holds nearly all parameters. Its bytes are far above what allocators and files take at a time.
constexpr int64_t kWide = 3200;
constexpr int64_t kWhole = kWide * kWide * 4;

// A rank's shards of parameters and momentum.
struct Sharded {
  explicit Sharded(RankContext& rank, ProcessGroup& group)
      : nn{.device = rank.device(), .stream = rank.device().compute(), .seed = 1},
        layout(nn, OneChunk(Model()), group, {.stage = ShardedOptions::kParameters}) {
    optimizer->Attach(nn, layout.Slices());
  }
  static std::unique_ptr<nn::Module> Model() {
    auto model = std::make_unique<nn::MlpModel>(nn::MlpConfig{.inputs = 1, .hidden = {kWide, kWide}, .classes = 2});
    model->Finalize();
    return model;
  }
  std::vector<LocalPiece> Held() {
    std::vector<LocalPiece> held = checkpoint::LocalParameters(layout);
    for (LocalPiece& state : checkpoint::LocalStates(layout, *optimizer)) held.push_back(std::move(state));
    return held;
  }
  nn::Context nn;
  ShardedDataParallel layout;
  std::unique_ptr<optim::Optimizer> optimizer = optim::MakeSgd({.lr = 0.1, .momentum = 0.9});
};

float ValueOf(const LocalPiece& piece, int64_t i) {
  return static_cast<float>((piece.where.IndexOf(i) * 7 + static_cast<int64_t>(piece.name.size())) % 10007);
}

void Fill(Device& device, const std::vector<LocalPiece>& pieces) {
  for (const LocalPiece& piece : pieces) {
    Tensor data = piece.data;
    device.Upload(data, [&](std::span<std::byte> out) {
      for (int64_t i = 0; i < piece.where.count; ++i) {
        const float value = ValueOf(piece, i);
        std::memcpy(&out[static_cast<size_t>(i) * sizeof(value)], &value, sizeof(value));
      }
    });
  }
}

std::string Wrong(const std::vector<LocalPiece>& pieces) {
  for (const LocalPiece& piece : pieces) {
    for (int64_t i = 0; i < piece.where.count; ++i) {
      if (piece.data.data<float>()[i] != ValueOf(piece, i)) return StrCat("element ", i, " of a piece of ", piece.name);
    }
  }
  return "";
}

// Runs `fn`, and says if it took device memory for a whole tensor beyond what was there.
std::string TooMuch(RankContext& rank, const std::function<void()>& fn) {
  const Bytes before = rank.memory().live, peak = rank.memory().peak;
  EXPECT_LT((peak - before).value(), kWhole / 2) << "a whole tensor would be seen";
  fn();
  const int64_t more = (rank.memory().peak - before).value();
  return more < kWhole / 2 ? "" : StrCat(more, " bytes of device memory were taken");
}

TEST(Resharding, FromPeersTakesNoRoomForAWholeTensor) {
  const test::Allocations allocations;
  std::vector<elastic::Pieces> all_held(4), all_needed(4);  // by rank; ranks are threads
  test::ExpectOnRanks(4, [&](RankContext& rank) -> std::string {
    Sharded four(rank, rank.world());
    const std::vector<LocalPiece> held = four.Held();
    Fill(rank.device(), held);
    const std::unique_ptr<ProcessGroup> three = rank.world().NewGroup(std::vector{0, 1, 2}, "three");
    std::unique_ptr<Sharded> fewer;
    if (three != nullptr) fewer = std::make_unique<Sharded>(rank, *three);
    const std::vector<LocalPiece> needed = fewer != nullptr ? fewer->Held() : std::vector<LocalPiece>();
    const auto me = static_cast<size_t>(rank.rank());
    all_held[me] = elastic::Describe(held), all_needed[me] = elastic::Describe(needed);
    rank.world().Barrier().Wait();
    const auto moves = elastic::PlanMoves(all_held, all_needed);
    if (!moves.ok()) return std::string(moves.status().message());
    const std::string more = TooMuch(rank, [&] { elastic::MakeMoves(four.nn, rank.world(), *moves, held, needed); });
    rank.device().compute().Synchronize();
    return more.empty() ? Wrong(needed) : more;
  });
  EXPECT_LT(allocations.largest(), kWhole);
}

// SHARDED: a rank reads its parts of other ranks' files. FULL: rank 0 makes whole files from all ranks' parts.
TEST(Resharding, OverACheckpointTakesNoRoomForAWholeTensor) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full ? "FULL" : "SHARDED");
    const test::Allocations allocations;
    const std::string folder = test::ScratchFolder("resharding");
    test::ExpectOnRanks(4, [&](RankContext& rank) -> std::string {
      Sharded four(rank, rank.world());
      Fill(rank.device(), four.Held());
      DeviceMesh mesh(rank.world(), {.dp = 4});
      return TooMuch(rank, [&] {
        checkpoint::Saver saver(rank, mesh, four.layout, *four.optimizer, {.folder = folder, .full = full},
                                {.world_size = 4, .kind = full ? "FULL" : "SHARDED"});
        saver.Save(1, {});
        saver.Finish();
      });
    });
    const absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(folder);
    ASSERT_TRUE(opened.ok()) << opened.status();
    test::ExpectOnRanks(3, [&](RankContext& rank) -> std::string {
      Sharded three(rank, rank.world());
      absl::Status status;
      const std::string more =
          TooMuch(rank, [&] { status = checkpoint::Load(rank, *opened, three.layout, *three.optimizer).status(); });
      if (!status.ok()) return std::string(status.message());
      return more.empty() ? Wrong(three.Held()) : more;
    });
    EXPECT_LT(allocations.largest(), kWhole);
  }
}

}  // namespace resharding_test
}  // namespace twofold
