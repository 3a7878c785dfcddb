// Ranks that draw other initial values, as those of hosts with other mathematical libraries do, begin alike: every
// element of the model has one value, on however many ranks it is.
#include "strategies/data_parallel/initial_values.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/device_mesh.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"
#include "tests/integration/run_spec.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace initial_values_test {

// By parameter and place in the whole.
using Elements = std::map<std::pair<std::string, int64_t>, float>;

// What a rank has before its first step, as the trainer makes it.
class Beginner {
 public:
  Beginner(RankContext& rank, const TrainingOptions& run)
      : nn_{.device = rank.device(), .stream = rank.device().compute(), .seed = 5 + static_cast<uint64_t>(rank.rank())},
        mesh_(rank.world(), run.mesh),
        layers_(mesh_, run.layers),
        ends_(run.model->shape().tied && run.mesh.pp > 1 ? mesh_.NewGroups(EndsOf(mesh_.shape()), "embedding")
                                                         : nullptr),
        layout_(MakeLayout(nn_,
                           MakeStage(*run.model, DType::kF32,
                                     PartsOfStage(run.parts, mesh_.Coordinate(Axis::kPp), run.mesh.pp), layers_),
                           {mesh_.Group(MeshGroup::kReplicas),
                            {{kTensorTag, &layers_.tensor_sums()},
                             {kKeyValueTag, layers_.key_value_sums()},
                             {kEmbeddingTag, ends_.get()},
                             {kExpertsTag, &mesh_.Group(MeshGroup::kExpertReplicas)}}},
                           run.layout)) {}

  // What it computes with and, of parameters that are put together for that alone, what it keeps.
  Elements elements() {
    Elements all;
    for (const optim::Slice& slice : layout_->Slices()) Add(all, slice.parts, slice.data);
    for (const nn::Parameter* p : layout_->Parameters()) {
      if (!p->data().empty()) Add(all, {{.parameter = p, .count = p->numel()}}, p->data());
    }
    return all;
  }

 private:
  static void Add(Elements& all, const std::vector<optim::SlicePart>& parts, const Tensor& values) {
    optim::ForStretches(parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
      if (stretch.part.padding) return;
      for (int64_t i = 0; i < stretch.where.count; ++i)
        all[{p.name(), stretch.where.IndexOf(i)}] = values.data<float>()[at + i];
    });
  }

  nn::Context nn_;
  DeviceMesh mesh_;
  ParallelLayers layers_;
  std::unique_ptr<ProcessGroup> ends_;
  std::unique_ptr<ParameterLayout> layout_;
};

struct BeginningCase {
  const char *name, *model, *parallel;
};
void PrintTo(const BeginningCase& c, std::ostream* out) { *out << c.name; }

class BeginAlike : public ::testing::TestWithParam<BeginningCase> {};

TEST_P(BeginAlike, EveryElementHasOneValue) {
  const BeginningCase& c = GetParam();
  const spec::Spec spec = test::Resolve(StrCat(
      "model { ", c.model, " }\ntrain { steps: 1 micro_batch: 1 }\nparallel { ", c.parallel, " }\n", test::kInMemory));
  const auto ranks = static_cast<size_t>(WorldSize(spec));
  std::vector<Elements> begun(ranks);
  test::ExpectOnRanks(static_cast<int>(ranks), [&](RankContext& rank) -> std::string {
    begun[static_cast<size_t>(rank.rank())] = Beginner(rank, TrainingOptionsOf(spec)).elements();
    return "";
  });
  std::map<std::pair<std::string, int64_t>, std::pair<float, size_t>> whole;  // value, and who was the first to have it
  int64_t held_again = 0;
  for (size_t r = 0; r < ranks; ++r) {
    EXPECT_FALSE(begun[r].empty());
    for (const auto& [place, value] : begun[r]) {
      const auto [first, fresh] = whole.try_emplace(place, value, r);
      held_again += fresh ? 0 : 1;
      ASSERT_EQ(value, first->second.first)
          << place.first << " element " << place.second << ": rank " << r << " against rank " << first->second.second;
    }
  }
  EXPECT_GT(held_again, 0);
  EXPECT_EQ(static_cast<int64_t>(whole.size()), ParameterCount(*ModelOf(spec.model())));
}

constexpr char kGpt[] = "gpt { layers: 2 hidden: 16 heads: 2 vocab: 257 sequence: 8 }";
constexpr char kLlama[] =
    "llama { layers: 2 hidden: 16 heads: 4 kv_heads: 1 ffn: 24 vocab: 257 sequence: 8 qkv_bias: true }";
constexpr char kLlama2[] = "llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 vocab: 257 sequence: 8 }";
constexpr char kMoe[] =
    "moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 vocab: 257 sequence: 8 } experts: 4 top_k: 2 }";
constexpr char kMlp[] = "mlp { inputs: 6 hidden: [8, 7, 4, 9] classes: 5 }";
constexpr char kCnn[] = "cnn { height: 6 width: 6 widths: [4, 6] blocks: [1, 1] classes: 5 }";

INSTANTIATE_TEST_SUITE_P(
    Layouts, BeginAlike,
    ::testing::Values(
        BeginningCase{"Ddp", kGpt, "dp: 3"}, BeginningCase{"Zero1", kGpt, "dp: 3 sharding: ZERO_1"},
        BeginningCase{"Zero2", kGpt, "dp: 3 sharding: ZERO_2 wrap { min_parameters: 50 }"},
        BeginningCase{"Hybrid", kGpt, "dp: 6 sharding: HYBRID_SHARD shard_group: 3"},
        BeginningCase{"HybridOffloaded", kGpt, "dp: 4 sharding: HYBRID_SHARD shard_group: 2 offload: OFFLOAD_ALL"},
        BeginningCase{"Tensor", kGpt, "tp: 2"}, BeginningCase{"TensorDdp", kGpt, "dp: 2 tp: 2"},
        BeginningCase{"TensorZero2", kGpt, "dp: 2 tp: 2 sharding: ZERO_2 sequence_parallel: true"},
        BeginningCase{"TensorHybrid", kGpt, "dp: 4 tp: 2 sharding: HYBRID_SHARD shard_group: 2"},
        BeginningCase{"TensorOffloaded", kGpt, "dp: 2 tp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL"},
        BeginningCase{"KeyValue1", kLlama, "tp: 4"},
        BeginningCase{"KeyValue2", kLlama2, "tp: 4 dp: 2 sharding: ZERO_1 sequence_parallel: true"},
        BeginningCase{"Context", kGpt, "dp: 2 cp: 2"}, BeginningCase{"Ends", kGpt, "pp: 2 dp: 2"},
        BeginningCase{"EndsSharded", kGpt, "pp: 2 dp: 2 sharding: ZERO_3"},
        BeginningCase{"EndsTensorZero1", kGpt, "pp: 2 tp: 2 dp: 2 sharding: ZERO_1"},
        BeginningCase{"Mlp", kMlp, "pp: 2 tp: 2"}, BeginningCase{"MlpZero3", kMlp, "dp: 2 tp: 2 sharding: ZERO_3"},
        BeginningCase{"CnnStages", kCnn, "pp: 2 dp: 2 sharding: ZERO_1"}, BeginningCase{"Experts", kMoe, "dp: 4 ep: 2"},
        BeginningCase{"ExpertsTensorZero2", kMoe, "dp: 2 ep: 2 tp: 2 sharding: ZERO_2"}),
    [](const auto& info) { return info.param.name; });

}  // namespace initial_values_test
}  // namespace twofold
