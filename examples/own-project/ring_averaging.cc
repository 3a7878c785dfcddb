#include "ring_averaging.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/base/check.h"
#include "core/comm/process_group.h"
#include "core/data/load_batch.h"
#include "core/device/ops.h"
#include "core/nn/loss.h"
#include "core/nn/mlp_model.h"
#include "core/optim/optimizer.h"

using namespace twofold;

namespace {

// One parameter, and where its neighbours' values arrive.
struct OnRing {
  Tensor mine, left, right;
};

constexpr Tag kLeftwards = 0, kRightwards = 1;

// mine = (mine + left + right) / 3. A rank waits for its neighbours alone.
void AverageWithNeighbours(RankContext& ctx, nn::Context& nn, std::vector<OnRing>& parameters) {
  const int ranks = ctx.world_size(), left = (ctx.rank() + ranks - 1) % ranks, right = (ctx.rank() + 1) % ranks;
  std::vector<P2p> messages;
  for (OnRing& p : parameters) {
    messages.push_back({P2p::kSend, p.mine, left, kLeftwards});
    messages.push_back({P2p::kSend, p.mine, right, kRightwards});
    messages.push_back({P2p::kRecv, p.right, right, kLeftwards});
    messages.push_back({P2p::kRecv, p.left, left, kRightwards});
  }
  ctx.world().Batch(messages).WaitOn(nn.stream);
  for (OnRing& p : parameters) {
    nn.device.Launch(nn.stream, ops::AddTo{.in = p.left, .out = p.mine});
    nn.device.Launch(nn.stream, ops::AddTo{.in = p.right, .out = p.mine});
    nn.device.Launch(nn.stream, ops::Scale{.x = p.mine, .factor = 1.0 / 3});
  }
}

double DistanceFromMean(RankContext& ctx, nn::Context& nn, std::vector<OnRing>& parameters) {
  double largest = 0;
  for (OnRing& p : parameters) {
    nn.device.Launch(nn.stream, ops::Cast{.in = p.mine, .out = p.left});
    ctx.world().AllReduce(p.left, ReduceOp::kAvg).WaitOn(nn.stream);
    const auto values = [&](const Tensor& t) {
      std::vector<float> host(static_cast<size_t>(t.numel()));
      nn.device.Download(t, std::as_writable_bytes(std::span(host)));
      return host;
    };
    const std::vector<float> mine = values(p.mine), mean = values(p.left);
    for (size_t i = 0; i < mine.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(mine[i]) - static_cast<double>(mean[i])));
  }
  return largest;
}

}  // namespace

std::string TrainOnRing(RankContext& ctx, const Dataset& data, const RingAveraging& options) {
  TWOFOLD_CHECK_GE(ctx.world_size(), 3);
  Device& device = ctx.device();
  nn::Context nn{.device = device, .stream = device.compute(), .seed = 1};
  nn::MlpModel model({.inputs = 16, .hidden = {64}, .classes = 4});
  model.Finalize();
  auto optimizer = optim::MakeSgd({.lr = options.learning_rate});
  std::vector<optim::Slice> slices;
  std::vector<OnRing> parameters;
  for (nn::Parameter* p : model.Parameters()) {
    p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->set_gradient(device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
    p->Initialize(device, nn.stream, nn.seed, p->data());
    slices.push_back(optim::WholeSlice(*p));
    parameters.push_back({.mine = p->data(),
                          .left = device.NewTensor(p->shape(), p->dtype(), Category::kCommunication),
                          .right = device.NewTensor(p->shape(), p->dtype(), Category::kCommunication)});
  }
  optimizer->Attach(nn, slices);

  RankOutcome outcome;
  nn::Saved saved, loss_saved;
  for (int step = 0; step < options.steps; ++step) {
    std::vector<int64_t> samples;
    for (int i = 0; i < options.batch; ++i)
      samples.push_back(((step * ctx.world_size() + ctx.rank()) * options.batch + i) % data.size());
    const Batch batch = LoadBatch(device, data, samples);
    const Tensor logits = model.Forward(nn, batch.inputs, saved);
    const Tensor loss = nn::SoftmaxCrossEntropy::Forward(nn, logits, batch.targets, loss_saved);
    for (nn::Parameter* p : model.Parameters()) p->ZeroGradient();
    model.Backward(nn, nn::SoftmaxCrossEntropy::Backward(nn, loss_saved), saved);
    optimizer->Step(nn, optimizer->learning_rate());
    AverageWithNeighbours(ctx, nn, parameters);
    outcome.last_loss = device.Item(loss, StandIn{1.0, "loss"});
    if (step == 0) outcome.first_loss = outcome.last_loss;
  }
  outcome.seconds = ctx.clock().Now().value();
  outcome.distance = DistanceFromMean(ctx, nn, parameters);
  return std::string(reinterpret_cast<const char*>(&outcome), sizeof outcome);
}

RankOutcome OutcomeOf(const std::string& bytes) {
  RankOutcome outcome;
  TWOFOLD_CHECK_EQ(bytes.size(), sizeof outcome);
  std::memcpy(&outcome, bytes.data(), sizeof outcome);
  return outcome;
}
