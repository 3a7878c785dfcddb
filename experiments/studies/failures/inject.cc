// Trains a spec and makes one rank go wrong on the way: inject SPEC FABRIC KIND RANK SAMPLE
//
// KIND: exception, exit, hang, crash (SIGSEGV), count, op, dtype, order, none. It happens when RANK reads its SAMPLE-th
// sample, in the midst of a training step. Prints the run's status: "code N" and "message TEXT".
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/registry.h"
#include "experiments/program/dataset.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "strategies/trainer.h"

namespace twofold {
namespace {

using Fault = void (*)(RankContext&);

void Reduce(RankContext& ctx, int64_t count, DType dtype = DType::kF32, ReduceOp op = ReduceOp::kSum) {
  Tensor t = ctx.device().NewTensor(Shape{count}, dtype, Category::kOther);
  ctx.device().Launch(ctx.device().compute(), ops::Fill{.out = t, .value = 0});
  ctx.world().AllReduce(t, op).Wait();
}

// Mismatches: a collective that the other ranks do not call now, of the size of the loss's unless it is the count that
// is to differ.
const std::map<std::string, Fault> kFaults = {
    {"none", [](RankContext&) {}},
    {"exception", [](RankContext&) { throw std::runtime_error("injected"); }},
    {"exit", [](RankContext&) { exit(0); }},
    {"hang",
     [](RankContext&) {
       while (true) std::this_thread::sleep_for(std::chrono::milliseconds(10));
     }},
    {"crash", [](RankContext&) { raise(SIGSEGV); }},
    {"count", [](RankContext& ctx) { Reduce(ctx, 77777); }},
    {"op", [](RankContext& ctx) { Reduce(ctx, 1, DType::kF32, ReduceOp::kMax); }},
    {"dtype", [](RankContext& ctx) { Reduce(ctx, 1, DType::kF64); }},
    {"order", [](RankContext& ctx) { ctx.world().Barrier().Wait(); }},
};

thread_local RankContext* this_rank = nullptr;  // ranks of the in-memory fabric are threads, of MPI processes
thread_local int64_t samples_read = 0;

class FaultyDataset : public Dataset {
 public:
  FaultyDataset(std::unique_ptr<Dataset> data, Fault fault, int rank, int64_t sample)
      : data_(std::move(data)), fault_(fault), rank_(rank), sample_(sample) {}
  int64_t size() const override { return data_->size(); }
  SampleType input() const override { return data_->input(); }
  SampleType target() const override { return data_->target(); }
  std::string Describe() const override { return data_->Describe(); }
  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    data_->Read(index, input, target);
    if (this_rank->rank() != rank_ || samples_read++ != sample_) return;
    std::printf("fault %.6f\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
    std::fflush(stdout);
    fault_(*this_rank);
  }

 private:
  const std::unique_ptr<Dataset> data_;
  const Fault fault_;
  const int rank_;
  const int64_t sample_;
};

int Run(const std::string& path, const std::string& fabric_name, Fault fault, int rank, int64_t sample) {
  const absl::StatusOr<spec::Spec> spec = LoadSpec(path, fabric_name, {});
  if (!spec.ok()) return std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str()), 2;
  auto data = MakeDataset(*spec);
  auto fabric = MakeFabric(*spec);
  if (!data.ok() || !fabric.ok()) return std::fprintf(stderr, "no data or no fabric\n"), 2;
  const FaultyDataset faulty(*std::move(data), fault, rank, sample);
  const RunResult result = (*fabric)->Run(static_cast<int>(WorldSize(*spec)), [&](RankContext& ctx) {
    this_rank = &ctx;
    return TrainRank(ctx, TrainingOptionsOf(*spec), faulty, nullptr);
  });
  if (!(*fabric)->speaks()) return result.status.ok() ? 0 : 1;
  std::printf("code %d\nmessage %s\n", static_cast<int>(result.status.code()),
              std::string(result.status.message()).c_str());
  return result.status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) {
  if (argc != 6 || !twofold::kFaults.contains(argv[3])) {
    std::fprintf(stderr, "usage: inject SPEC FABRIC KIND RANK SAMPLE\n");
    return 2;
  }
  return twofold::Run(argv[1], argv[2], twofold::kFaults.at(argv[3]), std::atoi(argv[4]), std::atoll(argv[5]));
}
