// Experts on different ranks train as those of one process do, and cost what the page says.
#include "strategies/expert_parallel/experts.h"

#include <cmath>
#include <map>
#include <sstream>

#include "absl/strings/str_format.h"
#include "backends/simulated/fabric.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "core/nn/llama.h"
#include "core/nn/loss.h"
#include "core/nn/recompute.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/model_parallel/layers.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace expert_parallel_test {

constexpr int64_t kMicroBatches = 4, kSamples = 2, kLength = 8, kVocab = 19;

enum class Sharding { kNone, kZero1, kZero2, kZero3 };

struct Arrangement {
  MeshShape mesh;
  Sharding sharding = Sharding::kNone;
  double capacity_factor = 0.5;  // drops half of all choices at least; 2: none
  bool recompute = false;
  double aux_loss = 0.1;
  bool sequence_parallel = false;
  std::string wrap = "transformer_block";
  DType dtype = DType::kF32;
  bool dropless = false;  // then there is no capacity
};

Arrangement Dropless(Arrangement setup) {
  setup.dropless = true;
  return setup;
}

std::string ToText(const Arrangement& s) {
  return absl::StrFormat(
      "pp %d dp %d cp %d tp %d ep %d, ZeRO %d, capacity %g, recompute %d, wrap %s, sequence_parallel %d, dropless %d",
      s.mesh.pp, s.mesh.dp, s.mesh.cp, s.mesh.tp, s.mesh.ep, static_cast<int>(s.sharding), s.capacity_factor,
      s.recompute, s.wrap, s.sequence_parallel, s.dropless);
}

nn::LlamaConfig Config(const Arrangement& s) {
  return {.layers = 2,
          .hidden = 16,
          .heads = 4,
          .vocab = kVocab,
          .kv_heads = 2,
          .ffn = 24,
          .sequence = kLength,
          .experts = {.experts = 4,
                      .top_k = 2,
                      .dropless = s.dropless,
                      .capacity_factor = s.capacity_factor,
                      .aux_loss = s.aux_loss},
          .dtype = s.dtype};
}

// One rank in training; micro-batches are dealt out as the trainer does it.
class Worker {
 public:
  Worker(RankContext& rank, const Arrangement& setup)
      : ctx_{.device = rank.device(), .stream = rank.device().compute(), .seed = 5},
        mesh_(rank.world(), setup.mesh),
        layers_(mesh_, {.sequence_parallel = setup.sequence_parallel, .kv_heads = Config(setup).kv_heads}),
        replicas_(mesh_.Group(MeshGroup::kReplicas)) {
    const nn::LlamaConfig config = Config(setup);
    auto model = std::make_unique<nn::LlamaModel>(config, nn::ModelPart::Whole(config.layers), layers_);
    model->Finalize();
    for (nn::Parameter* p : model->Parameters()) parameters_[p->name()] = p;
    for (size_t i = 0; setup.recompute && i < model->children().size(); ++i) {
      if (model->children()[i].module->kind() != "transformer_block") continue;
      model->WrapChild(i, [](std::unique_ptr<nn::Module> m) { return std::make_unique<nn::Recompute>(std::move(m)); });
    }
    const ReplicaGroups groups(replicas_, {{kTensorTag, &layers_.tensor_sums()},
                                           {kKeyValueTag, layers_.key_value_sums()},
                                           {kExpertsTag, &mesh_.Group(MeshGroup::kExpertReplicas)}});
    if (setup.sharding == Sharding::kNone) {
      layout_ = std::make_unique<DistributedDataParallel>(ctx_, OneChunk(std::move(model)), groups,
                                                          DdpOptions{.bucket = Bytes(4096)});
    } else {
      const auto stage = static_cast<ShardedOptions::Stage>(setup.sharding);
      layout_ = std::make_unique<ShardedDataParallel>(
          ctx_, OneChunk(std::move(model)), groups,
          ShardedOptions{.stage = stage,
                         .wrap = WrapEither(setup.mesh.ep > 1 ? WrapByKind(kExpertsKind) : WrapPolicy(),
                                            setup.wrap.empty() ? WrapPolicy() : WrapByKind(setup.wrap))});
    }
    loss_ = layers_.MakeLoss(kVocab);
    norm_.emplace(ctx_, *layout_, mesh_.Group(MeshGroup::kModel), &mesh_.Group(MeshGroup::kEp));
    optimizer_ = optim::MakeSgd({.lr = 0.1});
    optimizer_->Attach(ctx_, layout_->Slices());
  }

  // `record`: of losses, and of the first step's gradients; null where there is no data.
  void Step(int64_t step, std::string* record) {
    const int64_t accumulation = kMicroBatches / replicas_.size();
    layout_->BeginStep();
    ctx_.step = step;
    ctx_.loss_factor = 1 / static_cast<double>(accumulation);
    for (int64_t a = 0; a < accumulation; ++a) {
      layout_->BeginMicroBatch(a + 1 == accumulation);
      const int64_t number = a * replicas_.size() + replicas_.rank();
      const Tensor ids = Ids(step * kMicroBatches + number, 0), targets = Ids(step * kMicroBatches + number, 1);
      const Tensor loss = loss_->Forward(ctx_, layout_->chunks()[0]->Forward(ctx_, ids, saved_), targets, loss_saved_);
      const double value = ctx_.device.Item(loss, StandIn{0, "loss"});
      if (record != nullptr) StrAppend(record, "loss ", step, " ", number, " ", absl::StrFormat("%.17g", value), "\n");
      layout_->chunks()[0]->Backward(ctx_, loss_->Backward(ctx_, loss_saved_, ctx_.loss_factor), saved_);
    }
    layout_->FinishGradients();
    const double norm = std::sqrt(ctx_.device.Item(norm_->Squared(), StandIn{0, "norm"}));
    if (record != nullptr) StrAppend(record, "loss norm ", step, " ", absl::StrFormat("%.17g", norm), "\n");
    if (record != nullptr && step == 0) Append("gradient", true, record);
    optimizer_->Step(ctx_, 0.1);
    layout_->PublishUpdate();
  }
  // What this rank has of every parameter, by its place in the whole: lines "what name whole-numel first values...".
  void Append(const std::string& what, bool gradients, std::string* record) {
    ctx_.stream.Synchronize();
    for (const optim::Slice& slice : layout_->Slices()) {
      const float* values = (gradients ? slice.gradient : slice.data).data<float>();
      optim::ForStretches(slice.parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
        if (stretch.part.padding) return;
        stretch.where.ForRuns([&](int64_t i, int64_t index, int64_t n) {
          StrAppend(record, what, " ", p.name(), " ", p.shard_layout().whole.numel(), " ", index);
          for (int64_t e = i; e < i + n; ++e) StrAppend(record, " ", absl::StrFormat("%.9g", values[at + e]));
          StrAppend(record, "\n");
        });
      });
    }
  }
  ParameterLayout& layout() { return *layout_; }
  const std::map<std::string, nn::Parameter*>& parameters() const { return parameters_; }

 private:
  Tensor Ids(int64_t batch, int64_t shift) {
    Tensor ids = ctx_.device.NewTensor(Shape{kSamples, kLength}, DType::kI32, Category::kActivations);
    ctx_.device.Upload(ids, [&](std::span<std::byte> bytes) {
      for (int64_t i = 0; i < ids.numel(); ++i)
        reinterpret_cast<int32_t*>(bytes.data())[i] =
            static_cast<int32_t>(((batch % 3) * 7 + (i + shift) * (i + shift + 5) * 3) % kVocab);
    });
    return ids;
  }

  nn::Context ctx_;
  DeviceMesh mesh_;
  ParallelLayers layers_;
  ProcessGroup& replicas_;
  std::map<std::string, nn::Parameter*> parameters_;
  std::unique_ptr<ParameterLayout> layout_;
  std::unique_ptr<nn::Loss> loss_;
  std::optional<GradientNorm> norm_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  nn::Saved saved_, loss_saved_;
};

// What all ranks of a run recorded, put together: "loss 3 1", "gradient name", "parameter name".
using Outcome = std::map<std::string, std::vector<double>>;

Outcome Train(const Arrangement& setup, int steps) {
  const std::vector<std::string> records = test::OnRanks(setup.mesh.size(), [&](RankContext& rank) {
    std::string record;
    Worker worker(rank, setup);
    for (int step = 0; step < steps; ++step) worker.Step(step, &record);
    worker.Append("parameter", false, &record);
    return record;
  });
  Outcome outcome;
  for (const std::string& record : records) {
    std::istringstream lines(record);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what, name;
      int64_t numel = 0, first = 0;
      double value = 0;
      words >> what >> name;
      if (what == "loss") {
        words >> first >> value;
        outcome[StrCat(what, " ", name, " ", first)] = {value};
        continue;
      }
      words >> numel >> first;
      std::vector<double>& values = outcome[StrCat(what, " ", name)];
      if (values.empty()) values.resize(static_cast<size_t>(numel), NAN);
      for (auto at = static_cast<size_t>(first); words >> value; ++at) values.at(at) = value;
    }
  }
  return outcome;
}

// Within `tolerance` of the largest value of each; every element is somewhere.
void ExpectClose(const Outcome& got, const Outcome& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [what, values] : want) {
    const double tolerance = what.starts_with("gradient") ? 1e-5 : 1e-4;
    ASSERT_TRUE(got.contains(what)) << what;
    const std::vector<double>& mine = got.at(what);
    ASSERT_EQ(mine.size(), values.size()) << what;
    double largest = 0;
    for (const double v : values) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(mine[i], values[i], tolerance * largest) << what << ", element " << i;
  }
}

class OneProcess : public ::testing::TestWithParam<Arrangement> {};

TEST_P(OneProcess, TrainsTheSame) {
  Arrangement alone = GetParam();
  alone.mesh = {};
  alone.sharding = Sharding::kNone;
  alone.recompute = false;
  SCOPED_TRACE(ToText(GetParam()));
  const Outcome want = Train(alone, 20);
  EXPECT_LT(want.at("loss 19 0")[0], want.at("loss 0 0")[0] - 0.1) << "and learns";
  ExpectClose(Train(GetParam(), 20), want);
}

INSTANTIATE_TEST_SUITE_P(
    ExpertParallel, OneProcess,
    ::testing::Values(
        Arrangement{{.dp = 2, .ep = 2}}, Arrangement{{.dp = 2, .ep = 2}, Sharding::kNone, 2},
        Arrangement{{.dp = 4, .ep = 4}}, Arrangement{{.dp = 4, .ep = 2}},
        Arrangement{{.dp = 4, .ep = 2}, Sharding::kNone, 2}, Arrangement{{.dp = 4}},
        Arrangement{{.dp = 4, .ep = 2}, Sharding::kZero1}, Arrangement{{.dp = 4, .ep = 2}, Sharding::kZero2},
        Arrangement{{.dp = 4, .ep = 2}, Sharding::kZero3}, Arrangement{{.dp = 2, .ep = 2}, Sharding::kZero1},
        Arrangement{{.dp = 2, .ep = 2}, Sharding::kZero2}, Arrangement{{.dp = 2, .ep = 2}, Sharding::kZero3, 2},
        Arrangement{.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero3, .recompute = true},
        Arrangement{.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero2, .wrap = ""},
        Arrangement{.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero3, .wrap = "expert_linear"},
        Arrangement{.mesh = {.tp = 2}}, Arrangement{.mesh = {.dp = 2, .tp = 4, .ep = 2}},
        // Tokens that are routed apart: nothing is dropped, and there is no auxiliary loss, which is a mean over such.
        Arrangement{.mesh = {.tp = 2}, .capacity_factor = 2, .aux_loss = 0, .sequence_parallel = true},
        Arrangement{
            .mesh = {.dp = 2, .tp = 2, .ep = 2}, .capacity_factor = 2, .aux_loss = 0, .sequence_parallel = true},
        Arrangement{.mesh = {.dp = 2, .tp = 2, .ep = 2},
                    .sharding = Sharding::kZero3,
                    .capacity_factor = 2,
                    .aux_loss = 0,
                    .sequence_parallel = true},
        Arrangement{.mesh = {.dp = 2, .tp = 2, .ep = 2}},
        Arrangement{.mesh = {.dp = 2, .tp = 2, .ep = 2}, .sharding = Sharding::kZero3},
        // As many rows as routers choose.
        Dropless({{.dp = 2, .ep = 2}}), Dropless({{.dp = 4, .ep = 4}}), Dropless({.mesh = {.tp = 2}}),
        Dropless({{.dp = 4, .ep = 2}, Sharding::kZero2}),
        Dropless({.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero3, .recompute = true}),
        Dropless({.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero3, .wrap = "expert_linear"}),
        Dropless({.mesh = {.dp = 2, .tp = 2, .ep = 2}, .sharding = Sharding::kZero3})));

// Neither drops anything; one process computes slots in one product, and rows expert by expert.
TEST(ExpertParallel, DroplessTrainsAsWithRoomForAll) {
  ExpectClose(Train(Dropless({{.dp = 4, .ep = 2}}), 10), Train({.capacity_factor = 2}, 10));
}

// ---- What lies where ----

TEST(ExpertParallel, EveryRankHasItsExpertsAndNoOther) {
  test::ExpectOnRanks(8, [](RankContext& rank) -> std::string {
    Worker worker(rank, {.mesh = {.dp = 4, .tp = 2, .ep = 2}});
    const int64_t ep = rank.rank() / 2 % 2, tp = rank.rank() % 2;
    const nn::Parameter& gate_up = *worker.parameters().at("blocks.0.mlp.experts.gate_up.weight");
    if (gate_up.replicas() != kExpertsTag) return "replicas of all";
    if (gate_up.shape() != Shape{2 * 24, 16} || gate_up.shard_layout().whole != Shape{4 * 48, 16})
      return gate_up.shape().ToString();
    std::string runs;
    gate_up.ForParts(0, gate_up.numel(), [&](const nn::Parameter::Stretch& stretch) {
      StrAppend(&runs, stretch.where.IndexOf(0) / 16, "+", stretch.where.count / 16, " ");
    });
    std::string want;  // of two experts the gates, then the values, of this rank's 12 features
    for (int64_t e = 2 * ep; e < 2 * ep + 2; ++e)
      StrAppend(&want, 48 * e + 12 * tp, "+12 ", 48 * e + 24 + 12 * tp, "+12 ");
    if (runs != want) return StrCat(runs, "in place of ", want);
    const nn::Parameter& router = *worker.parameters().at("blocks.0.mlp.router.weight");
    if (!router.replicas().none() || router.shape() != Shape{4, 16}) return "the router is everybody's";
    return router.shard_layout().parts[0].owned == (tp == 0) ? "" : "owned by another";
  });
}

TEST(ExpertParallel, ExpertsAreUnitsOfTheirOwn) {
  test::ExpectOnRanks(4, [](RankContext& rank) -> std::string {
    Worker worker(rank, {.mesh = {.dp = 4, .ep = 2}, .sharding = Sharding::kZero3});
    std::string units;
    for (const auto& unit : dynamic_cast<ShardedDataParallel&>(worker.layout()).units())
      StrAppend(&units, unit.path, ":", unit.numel, " ");
    constexpr int64_t kExperts = 2 * 3 * 16 * 24, kBlock = 2 * 16 + 16 * 32 + 16 * 16 + 4 * 16,
                      kRoot = 2 * 19 * 16 + 16;
    const std::string want = StrCat(":", kRoot, " blocks.0:", kBlock, " blocks.0.mlp.experts:", kExperts,
                                    " blocks.1:", kBlock, " blocks.1.mlp.experts:", kExperts, " ");
    if (units != want) return StrCat(units, "in place of ", want);
    ProcessGroup *all = worker.layout().shard_group(), *experts = worker.layout().shard_group(kExpertsTag);
    return all->size() == 4 && experts->size() == 2 ? "" : "held by others";
  });
}

// ---- What travels ----

// 4 all-to-alls a layer and micro-batch, of E C hidden values; 6 where the block is recomputed. Of gradients, those of
// 1 / ep of the experts over dp / ep ranks.
TEST(ExpertParallel, SendsWhatThePageSays) {
  for (const bool recompute : {false, true}) {
    test::ExpectOnRanks(4, [recompute](RankContext& rank) -> std::string {
      const Arrangement setup{.mesh = {.dp = 4, .ep = 2}, .capacity_factor = 1, .recompute = recompute};
      Worker worker(rank, setup);
      const auto sum = [&](Communication::Kind kind, int64_t* count) {
        Bytes bytes;
        *count = 0;
        for (const auto& [key, entry] : rank.communication().entries())
          if (key.second == kind) bytes += entry.bytes, *count += entry.count;
        return bytes.value();
      };
      int64_t count = 0;
      std::string record;
      const int64_t before = sum(Communication::kAllReduce, &count);
      worker.Step(0, &record);
      const int64_t calls = 2 * (recompute ? 6 : 4), slots = 1 * 2 * kSamples * kLength;  // f top_k T
      const int64_t exchanged = sum(Communication::kAllToAll, &count);
      if (count != calls || exchanged != calls * slots * 16 * 4)
        return StrCat(count, " exchanges of ", exchanged, " bytes");
      int64_t gradients = 4;  // and an element of their norm
      for (const auto& [name, p] : worker.parameters()) gradients += 4 * p->numel();
      const int64_t reduced = sum(Communication::kAllReduce, &count) - before;
      return reduced == gradients ? "" : StrCat(reduced, " bytes of gradients in place of ", gradients);
    });
  }
}

// Dropless: 4 exchanges of top_k T hidden values, and one of the counts, of E integers; 6 and 2 with recomputation.
TEST(ExpertParallel, DroplessSendsTheRowsThatWereChosen) {
  for (const bool recompute : {false, true}) {
    test::ExpectOnRanks(4, [recompute](RankContext& rank) -> std::string {
      Worker worker(rank, Dropless({.mesh = {.dp = 4, .ep = 2}, .recompute = recompute}));
      std::string record;
      worker.Step(0, &record);
      int64_t rows = 0, counts = 0, sent = 0, counted = 0;
      for (const auto& [key, entry] : rank.communication().entries()) {
        if (key.second == Communication::kAllToAllV) rows += entry.count, sent += entry.bytes.value();
        if (key.second == Communication::kAllToAll) counts += entry.count, counted += entry.bytes.value();
      }
      if (rows != 2 * (recompute ? 6 : 4) || counts != 2 * (recompute ? 2 : 1))
        return StrCat(rows, " exchanges of rows and ", counts, " of counts");
      return counted == counts * 4 * 4 && sent > 0 ? "" : StrCat(counted, " bytes of counts, ", sent, " of rows");
    });
  }
}

// ---- What a rank needs, with data and without ----

std::string Peaks(RankContext& rank, const Arrangement& setup) {
  Worker worker(rank, setup);
  for (int step = 0; step < 2; ++step) worker.Step(step, nullptr);
  const MemoryStats& memory = rank.memory();
  return StrCat(memory.peak.value(), " ", memory.reserved.value());
}

TEST(ExpertParallel, WithoutDataNeedsTheSameBytes) {
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1, Sharding::kZero2, Sharding::kZero3}) {
    for (const double capacity_factor : {0.5, 2.0}) {
      const Arrangement setup{{.dp = 4, .ep = 2}, sharding, capacity_factor};
      SCOPED_TRACE(ToText(setup));
      const auto measured = test::OnRanks(4, [&](RankContext& rank) { return Peaks(rank, setup); });
      spec::Spec spec;
      spec.mutable_parallel()->set_dp(4);
      spec.mutable_fabric()->mutable_simulated()->set_cluster("this-machine");
      spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::OFF);
      auto fabric = MakeSimulatedFabric(spec);
      ASSERT_TRUE(fabric.ok()) << fabric.status().message();
      const RunResult predicted = (*fabric)->Run(4, [&](RankContext& rank) { return Peaks(rank, setup); });
      ASSERT_TRUE(predicted.status.ok()) << predicted.status.message();
      EXPECT_EQ(predicted.results, measured);
    }
  }
}

}  // namespace expert_parallel_test
}  // namespace twofold
