// A custom strategy on two fabrics: the README's example as a program.
//
//     build/release/examples/local_sgd
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/registry.h"
#include "core/data/load_batch.h"
#include "core/data/synthetic_dataset.h"
#include "core/nn/loss.h"
#include "core/nn/mlp_model.h"
#include "core/optim/optimizer.h"

namespace twofold {

// Local SGD (Stich 2019, algorithm 1): every rank trains alone; every `period` steps the ranks average their
// parameters.
std::string LocalSgd(RankContext& ctx, const Dataset& data, int steps, int period) {
  Device& device = ctx.device();
  nn::Context nn{.device = device, .stream = device.compute(), .seed = 1};
  nn::MlpModel model({.inputs = 16, .hidden = {64}, .classes = 4});
  model.Finalize();
  auto optimizer = optim::MakeSgd({.lr = 0.1});
  std::vector<optim::Slice> slices;
  for (nn::Parameter* p : model.Parameters()) {
    p->set_data(device.NewTensor(p->shape(), p->dtype(), Category::kParameters));
    p->set_gradient(device.NewTensor(p->shape(), p->dtype(), Category::kGradients));
    p->Initialize(device, nn.stream, nn.seed, p->data());
    slices.push_back(optim::WholeSlice(*p));
  }
  optimizer->Attach(nn, slices);
  nn::Saved saved, loss_saved;
  double loss = 0;
  for (int step = 1; step <= steps; ++step) {
    std::vector<int64_t> mine(32);
    for (int i = 0; i < 32; ++i) mine[i] = ((step * ctx.world_size() + ctx.rank()) * 32 + i) % data.size();
    Batch batch = LoadBatch(device, data, mine);
    Tensor logits = model.Forward(nn, batch.inputs, saved);
    Tensor mean = nn::SoftmaxCrossEntropy::Forward(nn, logits, batch.targets, loss_saved);
    for (nn::Parameter* p : model.Parameters()) p->ZeroGradient();
    model.Backward(nn, nn::SoftmaxCrossEntropy::Backward(nn, loss_saved), saved);
    optimizer->Step(nn, optimizer->learning_rate());
    if (step % period == 0) {
      for (optim::Slice& s : slices) ctx.world().AllReduce(s.data, ReduceOp::kAvg).WaitOn(nn.stream);
    }
    loss = device.Item(mean, StandIn{1.0, "loss"});
  }
  return absl::StrFormat("loss %.6f after %.1f ms", loss, ctx.clock().Now().value() * 1e3);
}

}  // namespace twofold

int main() {
  using namespace twofold;
  const auto data = MakeSyntheticDataset({.samples = 4096, .inputs = 16, .classes = 4});
  for (const bool simulated : {true, false}) {
    spec::Spec spec;  // the same code, predicted and then run
    spec.mutable_parallel()->set_dp(2);
    if (simulated) spec.mutable_fabric()->mutable_simulated()->set_data(spec::Simulated::REAL);
    auto fabric = MakeFabric(spec);
    if (!fabric.ok()) return std::fprintf(stderr, "%s\n", std::string(fabric.status().message()).c_str()), 1;
    const RunResult result = (*fabric)->Run(2, [&](RankContext& ctx) { return LocalSgd(ctx, **data, 200, 4); });
    if (!result.status.ok()) return std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str()), 1;
    std::printf("%-10s %s\n", simulated ? "simulated" : "in_memory", result.results[0].c_str());
  }
}
