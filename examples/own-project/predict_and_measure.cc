// Predicts the strategy on a simulated cluster of 64 GPUs, then runs the same code on 4 threads of this machine.
#include <cstdio>
#include <string>

#include "backends/registry.h"
#include "core/data/synthetic_dataset.h"
#include "ring_averaging.h"

namespace {

bool Train(const twofold::spec::Spec& spec, int ranks, const twofold::Dataset& data) {
  const auto fabric = twofold::MakeFabric(spec);
  if (!fabric.ok()) {
    std::fprintf(stderr, "%s\n", std::string(fabric.status().message()).c_str());
    return false;
  }
  const twofold::RunResult result =
      (*fabric)->Run(ranks, [&](twofold::RankContext& ctx) { return TrainOnRing(ctx, data, {}); });
  if (!result.status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str());
    return false;
  }
  const RankOutcome outcome = OutcomeOf(result.results[0]);
  std::printf("%-9s  %2d ranks  %8.3f ms", std::string((*fabric)->name()).c_str(), ranks, outcome.seconds * 1e3);
  if ((*fabric)->predicted())
    std::printf("  (predicted)\n");
  else
    std::printf("  loss %.4f, then %.4f\n", outcome.first_loss, outcome.last_loss);
  return true;
}

}  // namespace

int main() {
  const auto data = twofold::MakeSyntheticDataset({.samples = 4096, .inputs = 16, .classes = 4});
  twofold::spec::Spec predicted, measured;
  predicted.mutable_parallel()->set_dp(64);
  predicted.mutable_fabric()->mutable_simulated()->set_cluster("star-a100");
  measured.mutable_parallel()->set_dp(4);
  measured.mutable_fabric()->mutable_in_memory();
  return Train(predicted, 64, **data) && Train(measured, 4, **data) ? 0 : 1;
}
