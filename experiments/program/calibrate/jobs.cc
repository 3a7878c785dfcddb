#include "experiments/program/calibrate/jobs.h"

#include <algorithm>
#include <utility>

#include "backends/host/processor_use.h"
#include "backends/registry.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/data/synthetic_images.h"
#include "core/proto/bytes.h"
#include "core/run/trace.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/report/load.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "strategies/trainer.h"

namespace twofold::calibrate {
namespace {

constexpr int kWarmUp = 2, kPlain = 4, kTraced = 3;  // steps

// Widths, lengths and batches that no preset has.
constexpr struct {
  const char *name, *text;
  bool large = false;
} kJobs[] = {
    {"GPT of 2 layers of 192, 4 x 96 tokens a rank",
     "model { gpt { layers: 2 hidden: 192 heads: 6 vocab: 256 sequence: 96 } } train { micro_batch: 4 }"},
    {"GPT of 2 layers of 320, 3 x 80 tokens a rank",
     "model { gpt { layers: 2 hidden: 320 heads: 5 vocab: 256 sequence: 80 } } train { micro_batch: 3 }"},
    {"Llama of 2 layers of 224, 4 x 72 tokens a rank",
     "model { llama { layers: 2 hidden: 224 heads: 7 kv_heads: 1 vocab: 256 sequence: 72 } } train { micro_batch: 4 }"},
    // Channels fill whole vectors, as in published networks. The cost of a partial vector would distort the other
    // factors.
    {"residual CNN of 48 and 96 channels, 6 images of 24 x 24 a rank",
     "model { cnn { height: 24 width: 24 widths: [48, 96] blocks: [1, 1] } } train { micro_batch: 6 }"},
    // Activations of 4 to 5 MiB.
    {"residual CNN of 32 and 64 channels, 24 images of 40 x 40 a rank",
     "model { cnn { height: 40 width: 40 widths: [32, 64] blocks: [1, 1] } } train { micro_batch: 24 }", true},
    {"residual CNN of 48 and 96 channels, 32 images of 28 x 28 a rank",
     "model { cnn { height: 28 width: 28 widths: [48, 96] blocks: [1, 1] } } train { micro_batch: 32 }", true},
    {"GPT of a layer of 256, 6 x 224 tokens a rank",
     "model { gpt { layers: 1 hidden: 256 heads: 4 vocab: 512 sequence: 224 } } train { micro_batch: 6 }", true},
    {"Llama of a layer of 288, 5 x 240 tokens a rank",
     "model { llama { layers: 1 hidden: 288 heads: 6 kv_heads: 2 vocab: 512 sequence: 240 } } train { micro_batch: 5 }",
     true},
};

// Random bytes as tokens.
class Noise : public Dataset {
 public:
  explicit Noise(int64_t length) : length_(length) {}
  int64_t size() const override { return 1024; }
  SampleType input() const override { return {Shape{length_}, DType::kU8}; }
  SampleType target() const override { return input(); }
  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    auto x = static_cast<uint32_t>(index) * 2654435761u + 1;
    for (std::span<std::byte> bytes : {input, target}) {
      for (std::byte& b : bytes) x = x * 1664525u + 1013904223u, b = static_cast<std::byte>(x >> 24);
    }
  }
  std::string Describe() const override { return StrCat("noise, ", size(), " samples of ", length_, " bytes"); }

 private:
  const int64_t length_;
};

std::shared_ptr<const Dataset> DataFor(const spec::Model& model) {
  const ModelInput input = ModelOf(model)->input();
  if (input.kind != ModelInput::kImages) return std::make_shared<Noise>(input.length);
  auto images = MakeSyntheticImages({.samples = 256,
                                     .height = input.height,
                                     .width = input.width,
                                     .channels = input.channels,
                                     .classes = input.classes});
  TWOFOLD_CHECK(images.ok(), images.status().message());
  return *std::move(images);
}

double Median(std::vector<double> values) { return values.empty() ? 0 : Quantile(std::move(values), 0.5); }

// Seconds per step of each kernel in the traced steps. Every step does the same operations in the same order.
void AddKernels(const report::RankRecord& record, int64_t steps, JobTimes& times) {
  std::vector<const report::Span*> spans;
  for (const report::Span& s : record.spans()) {
    if (s.stream() == "compute" && s.name() != kCommunicationBesideCompute) spans.push_back(&s);
  }
  const size_t a_step = spans.size() / static_cast<size_t>(steps);
  std::map<std::string, std::vector<double>> seconds;
  for (size_t i = 0; i < a_step * static_cast<size_t>(steps); ++i) {
    if (i < a_step) ++times.kernels[spans[i]->name()].calls;
    std::vector<double>& by_step = seconds[spans[i]->name()];
    by_step.resize(static_cast<size_t>(steps));
    by_step[i / a_step] += spans[i]->end() - spans[i]->start();
  }
  for (auto& [kernel, by_step] : seconds) times.kernels[kernel].seconds += Median(std::move(by_step));
  times.launches += static_cast<double>(a_step);
}

void AddRank(const spec::Spec& spec, const report::RankRecord& record, JobTimes& times) {
  const int64_t traced = spec.trace().last_steps();
  std::vector<double> step, exposed;
  for (int64_t i = spec.train().warmup_steps(); i < record.steps_size() - traced; ++i) {
    step.push_back(record.steps(static_cast<int>(i)).seconds());
    exposed.push_back(record.steps(static_cast<int>(i)).exposed_communication_seconds());
  }
  times.step += Median(step);
  times.exposed += Median(exposed);
  for (const report::Span& s : record.spans()) {
    if (s.stream() != "compute")
      times.communication += (s.end() - s.start() - s.waiting()) / static_cast<double>(traced);
  }
  AddKernels(record, traced, times);
}

}  // namespace

double JobTimes::KernelSeconds() const {
  double sum = 0;
  for (const auto& [name, kernel] : kernels) sum += kernel.seconds;
  return sum;
}

std::vector<Job> Jobs() {
  std::vector<Job> jobs;
  for (const auto& [name, text, large] : kJobs) {
    absl::StatusOr<spec::Spec> spec = ParseSpec(text, "a calibration job");
    TWOFOLD_CHECK(spec.ok(), spec.status().message());
    spec->mutable_train()->set_clip_norm(1);
    spec->mutable_train()->set_steps(kWarmUp + kPlain + kTraced);
    spec->mutable_train()->set_warmup_steps(kWarmUp);
    spec->mutable_trace()->set_last_steps(kTraced);
    spec->mutable_parallel()->set_bucket_mib(1);
    FillDefaults(*spec, name);
    jobs.push_back({name, *spec, DataFor(spec->model()), large});
  }
  return jobs;
}

spec::Spec SpecOf(const Job& job, int ranks, int threads, bool overlap) {
  spec::Spec spec = job.spec;
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_parallel()->set_overlap(overlap);
  spec.mutable_train()->set_global_batch(ranks * spec.train().micro_batch());
  spec.mutable_train()->set_threads_per_rank(threads);
  spec.mutable_trace()->set_ranks(ranks);  // kernel times are means over all ranks
  return spec;
}

absl::StatusOr<JobTimes> RunJob(const Job& job, const spec::Spec& spec) {
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  const TrainingOptions options = TrainingOptionsOf(spec);
  const auto train = [&](RankContext& ctx) { return TrainRank(ctx, options, *job.data, nullptr); };
  const RankFunction watched = [&](RankContext& ctx) { return host::WithProcessorUse([&] { return train(ctx); }); };
  const RunResult result =
      (*fabric)->Run(static_cast<int>(WorldSize(spec)), (*fabric)->predicted() ? RankFunction(train) : watched);
  if (!result.status.ok()) return Internal(job.name, ": ", std::string(result.status.message()));
  std::vector<report::RankRecord> records(result.results.size());
  for (size_t r = 0; r < records.size(); ++r) {
    if (absl::Status s = FromBytes(result.results[r], StrCat(job.name, ": the record of rank ", r), records[r]);
        !s.ok())
      return s;
  }
  return TimesFrom(spec, records);
}

JobTimes TimesFrom(const spec::Spec& spec, const std::vector<report::RankRecord>& records) {
  JobTimes times;
  for (const report::RankRecord& record : records) AddRank(spec, record, times);
  const auto ranks = static_cast<double>(records.size());
  for (double* sum : {&times.step, &times.exposed, &times.launches, &times.communication}) *sum /= ranks;
  for (auto& [name, kernel] : times.kernels) kernel.seconds /= ranks, kernel.calls /= ranks;
  std::vector<report::ProcessorUse> uses;
  for (const report::RankRecord& record : records) {
    uses.push_back(record.processors());
    times.wall = std::max(times.wall, record.processors().wall());
  }
  times.load = LoadOf(uses);
  return times;
}

}  // namespace twofold::calibrate
