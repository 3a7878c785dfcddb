// A residual network learns made-up images on two ranks, with either kind of batch normalisation, and is right about
// images that it has not seen, where running statistics normalise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/in_memory/fabric.h"
#include "core/data/distributed_sampler.h"
#include "core/data/load_batch.h"
#include "core/data/synthetic_images.h"
#include "core/nn/cnn.h"
#include "core/nn/loss.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/replica_statistics.h"

namespace twofold {
namespace cnn_learning_test {

constexpr int64_t kSide = 16, kTraining = 4096, kUnseen = 512, kSteps = 150, kClasses = 10;

// Of `images`, [first, first + count), the share whose largest logit is the label's.
double Accuracy(nn::Context& ctx, nn::Module& model, const Dataset& images, int64_t first, int64_t count) {
  ctx.training = false;
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  const Batch batch = LoadBatch(ctx.device, images, indices);
  nn::Saved saved;
  const Tensor logits = model.Forward(ctx, batch.inputs, saved);
  ctx.training = true;
  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = logits.data<float>() + i * kClasses;
    right += std::max_element(row, row + kClasses) - row == batch.targets.data<uint8_t>()[i];
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

struct Learned {
  double before, after;
};

// One rank's training, 150 steps of 64 images over all ranks. The learning rate falls to nothing, so that running
// statistics catch up with the weights.
Learned Train(RankContext& rank, const Dataset& images, bool sync) {
  ReplicaStatistics statistics(
      rank.device(), rank.world().SplitEvenly(rank.world_size(), ProcessGroup::Pattern::kConsecutive, "batch norm"));
  nn::Context ctx{.device = rank.device(), .stream = rank.device().compute(), .seed = 1, .statistics = &statistics};
  auto owned = std::make_unique<nn::CnnModel>(nn::CnnConfig{.height = kSide,
                                                            .width = kSide,
                                                            .widths = {16, 32},
                                                            .blocks = {1, 1},
                                                            .classes = kClasses,
                                                            .sync_batch_norm = sync});
  nn::CnnModel& model = *owned;
  model.Finalize();
  DistributedDataParallel ddp(ctx, OneChunk(std::move(owned)), rank.world(), {});
  const auto optimizer = optim::MakeAdam({.lr = 4e-3, .decoupled = true});
  const std::vector<optim::Slice> slices = ddp.Slices();
  optimizer->Attach(ctx, slices);
  auto sampler =
      *DistributedSampler::Make({.dataset_size = kTraining, .replicas = 2, .rank = rank.rank(), .block = 64});
  const double before = Accuracy(ctx, model, images, kTraining, kUnseen);
  for (int64_t step = 0; step < kSteps; ++step) {
    Batch batch = LoadBatch(ctx.device, images, sampler.BatchAt(step));
    ddp.BeginStep();
    nn::Saved saved, loss;
    nn::SoftmaxCrossEntropy::Forward(ctx, model.Forward(ctx, batch.inputs, saved), batch.targets, loss);
    model.Backward(ctx, nn::SoftmaxCrossEntropy::Backward(ctx, loss), saved);
    ddp.FinishGradients();
    optimizer->Step(ctx, optimizer->learning_rate() * static_cast<double>(kSteps - step) / kSteps);
  }
  ddp.AverageBuffers();
  return {before, Accuracy(ctx, model, images, kTraining, kUnseen)};
}

TEST(CnnLearning, RightAboutUnseenImages) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_fabric()->set_timeout_s(120);
  spec.mutable_train()->set_threads_per_rank(1);
  const auto images = *MakeSyntheticImages(
      {.samples = kTraining + kUnseen, .height = kSide, .width = kSide, .channels = 3, .classes = kClasses});
  for (const bool sync : {false, true}) {
    auto fabric = MakeInMemoryFabric(spec);
    const RunResult result = (*fabric)->Run(2, [&](RankContext& ctx) {
      const Learned learned = Train(ctx, *images, sync);
      return std::string(reinterpret_cast<const char*>(&learned), sizeof(learned));
    });
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    Learned first, second;
    std::memcpy(&first, result.results[0].data(), sizeof(first));
    std::memcpy(&second, result.results[1].data(), sizeof(second));
    EXPECT_LT(first.before, 0.3);
    EXPECT_GE(first.after, 0.95) << (sync ? "synchronised" : "each rank's own");
    EXPECT_EQ(first.after, second.after) << "ranks with the same buffers say the same";
  }
}

}  // namespace cnn_learning_test
}  // namespace twofold
