// What each axis of model parallelism sends, in bytes, against the closed forms of the papers: per layer and
// micro-batch, and what comes once, on rank 0. Counted as the report does: payloads of calls, as nccl-tests counts
// them.
//   tp  Shoeybi et al. 2019, section 3: in every layer two all-reduces of M = b t h elements forward and two backward
//   sp  Korthikanti et al. 2022, section 4.2.2: reduce-scatters and all-gathers in their place, and the inputs gathered
//   again pp  Narayanan et al. 2021, sections 2.2 and 3.2: M per micro-batch, boundary and direction; interleaved, v
//   times as many boundaries cp  Liu et al. 2023, section 3: keys and values go round the ring; Brandon et al. 2023: in
//   backward with their gradients ep  Lepikhin et al. 2021, section 3.2; Rajbhandari et al. 2022: two all-to-alls
//   forward and two backward of all slots dp  Rajbhandari et al. 2020, section 7: 2, 2, 2 and 3 times the parameters,
//   here those of this rank's part of the model alone
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace model_parallel_volume_test {

constexpr int64_t kHidden = 16, kHeads = 4, kKvHeads = 2, kWidth = kHidden / kHeads, kFfn = 24, kVocab = 259,
                  kSequence = 16, kBatch = 2, kElement = 4;
constexpr int64_t kRows = kBatch * kSequence, kMessage = kRows * kHidden * kElement;  // M

// Payload bytes by operation and group.
using Volumes = std::map<std::pair<std::string, std::string>, int64_t>;

struct Job {
  std::string model;  // "gpt", "llama", "moe"; or a whole block of the spec: "mlp { ... }"
  std::string parallel;
  int64_t dp = 1, micro_batches = 1, layers = 2;
  std::string train;
};

Volumes WholeRun(const Job& job, int steps) {
  const std::string llama =
      StrCat("layers: ", job.layers, " hidden: ", kHidden, " heads: ", kHeads, " kv_heads: ", kKvHeads, " ffn: ", kFfn,
             " vocab: ", kVocab, " sequence: ", kSequence);
  const std::string gpt = StrCat("layers: ", job.layers, " hidden: ", kHidden, " heads: ", kHeads, " vocab: ", kVocab,
                                 " sequence: ", kSequence);
  const std::string model = job.model.ends_with("}") ? job.model
                            : job.model == "gpt"     ? StrCat("gpt { ", gpt, " }")
                            : job.model == "llama"
                                ? StrCat("llama { ", llama, " }")
                                : StrCat("moe { llama { ", llama, " } experts: 4 top_k: 2 capacity_factor: 1.5 }");
  const auto records =
      test::RunText(StrCat("model { ", model, " }\ntrain { warmup_steps: 0 steps: ", steps, " micro_batch: ", kBatch,
                           " global_batch: ", kBatch * job.dp * job.micro_batches, " optimizer { sgd {} } ", job.train,
                           " }\nparallel { dp: ", job.dp, " ", job.parallel, " }\n", test::kInMemory));
  Volumes volumes;
  if (records.empty()) return volumes;
  for (const report::Collective& c : records[0].collectives()) volumes[{c.operation(), c.group()}] += c.bytes();
  return volumes;
}

Volumes Minus(Volumes a, const Volumes& b) {
  for (const auto& [key, bytes] : b) a[key] -= bytes;
  std::erase_if(a, [](const auto& item) { return item.second == 0; });
  return a;
}

// What a step sends, whatever comes before the first.
Volumes AStep(const Job& job) { return Minus(WholeRun(job, 3), WholeRun(job, 2)); }

// Of that, what each further layer adds, and each further micro-batch.
Volumes ALayer(Job job) {
  const Volumes less = AStep(job);
  ++job.layers;
  return Minus(AStep(job), less);
}
Volumes AMicroBatch(Job job, int64_t more = 1) {
  const Volumes less = AStep(job);
  job.micro_batches += more;
  return Minus(AStep(job), less);
}

// What comes once, before the first step.
Volumes TheStart(const Job& job) {
  Volumes start;
  for (const auto& [key, bytes] : WholeRun(job, 2)) start[key] += 3 * bytes;
  for (const auto& [key, bytes] : WholeRun(job, 3)) start[key] -= 2 * bytes;
  std::erase_if(start, [](const auto& item) { return item.second == 0; });
  return start;
}

// ---- Tensor and sequence parallelism: the group "tp" ----
// Two replicas beside it, so that "tp" is a group of its own; their gradients are on "replicas" or the layout's groups.

Volumes Only(const Volumes& volumes, std::string_view group) {
  Volumes chosen;
  for (const auto& [key, bytes] : volumes) {
    if (key.second == group) chosen[key] = bytes;
  }
  return chosen;
}

class TensorParallel : public ::testing::TestWithParam<int> {};

TEST_P(TensorParallel, SumsFourTimesALayer) {
  for (const char* model : {"gpt", "llama"}) {
    const Job job{.model = model, .parallel = StrCat("tp: ", GetParam()), .dp = 2, .micro_batches = 2};
    EXPECT_EQ(Only(ALayer(job), "tp"), (Volumes{{{"all_reduce", "tp"}, 2 * 4 * kMessage}})) << model;
    // Beside the layers the embedding's output, the head's gradient, and three numbers a token of the loss.
    EXPECT_EQ(Only(AMicroBatch(job), "tp"),
              (Volumes{{{"all_reduce", "tp"}, (4 * job.layers + 2) * kMessage + 3 * kRows * kElement}}))
        << model;
  }
}

TEST_P(TensorParallel, ScattersAndGathersWithSequenceParallelism) {
  const Job job{
      .model = "gpt", .parallel = StrCat("tp: ", GetParam(), " sequence_parallel: true"), .dp = 2, .micro_batches = 2};
  // Every sum becomes a scatter and a gather; inputs of the two column-parallel layers are gathered once more. Once a
  // step, gradients of two norms and of the biases of two row-parallel layers are summed.
  EXPECT_EQ(Only(ALayer(job), "tp"),
            (Volumes{{{"reduce_scatter", "tp"}, 2 * 4 * kMessage}, {{"all_gather", "tp"}, 2 * (4 + 2) * kMessage}}));
  EXPECT_EQ(Only(ALayer(job), "tp gradients"), (Volumes{{{"all_reduce", "tp gradients"}, 6 * kHidden * kElement}}));
  // Embedding and head likewise, once more gathered for the head.
  EXPECT_EQ(Only(AMicroBatch(job), "tp"), (Volumes{{{"reduce_scatter", "tp"}, (4 * job.layers + 2) * kMessage},
                                                   {{"all_gather", "tp"}, (6 * job.layers + 3) * kMessage},
                                                   {{"all_reduce", "tp"}, 3 * kRows * kElement}}));
}

// Recomputed, a block sends what its forward pass sends once more.
TEST_P(TensorParallel, RecomputationSendsAForwardPassMore) {
  const Job job{.model = "gpt",
                .parallel = StrCat("tp: ", GetParam()),
                .dp = 2,
                .micro_batches = 2,
                .train = "activation_checkpointing {}"};
  EXPECT_EQ(Only(ALayer(job), "tp"), (Volumes{{{"all_reduce", "tp"}, 2 * 6 * kMessage}}));
  // Without the sum of the feed-forward part, which only makes the block's output.
  const Job stopped{.model = job.model,
                    .parallel = job.parallel,
                    .dp = job.dp,
                    .micro_batches = job.micro_batches,
                    .train = "activation_checkpointing { early_stop: true }"};
  EXPECT_EQ(Only(ALayer(stopped), "tp"), (Volumes{{{"all_reduce", "tp"}, 2 * 5 * kMessage}}));
}

// Drawn parameters that all ranks have are the first one's: positions, routers. Norms and biases begin as constants.
TEST_P(TensorParallel, BeginsWithTheFirstRanksPositions) {
  for (const char* more : {"", " sequence_parallel: true"}) {
    const Volumes start = TheStart({.model = "gpt", .parallel = StrCat("tp: ", GetParam(), more), .dp = 2});
    const std::string group = more[0] == '\0' ? "tp" : "tp gradients";
    EXPECT_EQ(Only(start, group), (Volumes{{{"broadcast", group}, kSequence * kHidden * kElement}})) << more;
  }
  const Job moe{.model = "moe", .parallel = StrCat("tp: ", GetParam()), .dp = 2, .layers = 3};
  EXPECT_EQ(Only(TheStart(moe), "tp"), (Volumes{{{"broadcast", "tp"}, moe.layers * 4 * kHidden * kElement}}));
}
INSTANTIATE_TEST_SUITE_P(Degrees, TensorParallel, ::testing::Values(2, 4),
                         [](const auto& info) { return StrCat(info.param); });

// Two heads of keys and values on four ranks: two have the same of each.
TEST(KeyValueHeads, BeginAsTheFirstOfTheirRanksHasThem) {
  const Job job{.model = "llama", .parallel = "tp: 4", .dp = 2, .layers = 3};
  const Volumes start = TheStart(job);
  EXPECT_EQ(Only(start, "key values"),
            (Volumes{{{"broadcast", "key values"}, job.layers * 2 * kWidth * kHidden * kElement}}));
  EXPECT_EQ(Only(start, "tp"), Volumes());
}

// ---- Pipelines: what rank 0, of the first stage, sends and receives ----

int64_t Sum(const Volumes& volumes, std::string_view operation, std::string_view group) {
  int64_t sum = 0;
  for (const auto& [key, bytes] : volumes) {
    if (key.first == operation && std::string_view(key.second).starts_with(group)) sum += bytes;
  }
  return sum;
}

struct Pipeline {
  const char* name;
  const char* parallel;
  int64_t stages, chunks, rows = kRows;  // rows of a message
};
void PrintTo(const Pipeline& p, std::ostream* out) { *out << p.name; }
class PipelineParallel : public ::testing::TestWithParam<Pipeline> {};

// The first stage sends all its chunks' outputs on, and receives the gradients of these; of all chunks but the first it
// receives the inputs, and sends their gradients.
TEST_P(PipelineParallel, SendsEveryBoundaryOnceEachWay) {
  const Pipeline& p = GetParam();
  const Job job{.model = "llama",
                .parallel = StrCat("pp: ", p.stages, " ", p.parallel),
                .micro_batches = p.stages,
                .layers = p.stages * p.chunks};
  const Volumes step = AStep(job);
  const int64_t message = p.rows * kHidden * kElement, one_way = job.micro_batches * (2 * p.chunks - 1) * message;
  EXPECT_EQ(Sum(step, "send", "pipeline"), one_way);
  EXPECT_EQ(Sum(step, "recv", "pipeline"), one_way);
  Job deeper = job;
  deeper.layers *= 2;
  EXPECT_EQ(Sum(AStep(deeper), "send", "pipeline"), one_way) << "more layers a stage send no more";
}
// Parts of messages are gathered among the ranks of tp, and nothing else is: each message is H of them.
TEST(PipelineMessages, AreGatheredWhereTheyWereScattered) {
  for (const auto& [parallel, chunks] :
       {std::pair("", 1), std::pair("schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 2)}) {
    const Job job{.model = "llama",
                  .parallel = StrCat("pp: 2 tp: 2 scatter_gather_messages: true ", parallel),
                  .micro_batches = 4,
                  .layers = 4};
    const Volumes step = AStep(job);
    const int64_t messages = job.micro_batches * (2 * chunks - 1);
    EXPECT_EQ(Sum(step, "send", "pipeline"), messages * kMessage / 2);
    EXPECT_EQ(Sum(step, "recv", "pipeline"), messages * kMessage / 2);
    EXPECT_EQ(Sum(step, "all_gather", "tp"), messages * kMessage);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineParallel,
    ::testing::Values(Pipeline{"GPipe2", "schedule: GPIPE", 2, 1}, Pipeline{"OneFOneB4", "", 4, 1},
                      Pipeline{"Interleaved2", "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 2, 2},
                      Pipeline{"Interleaved2x3", "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 3", 2, 3},
                      Pipeline{"Interleaved4", "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", 4, 2},
                      Pipeline{"ZeroBubble4", "schedule: ZERO_BUBBLE_H1", 4, 1}, Pipeline{"WithTensor", "tp: 2", 2, 1},
                      Pipeline{"WithSequence", "tp: 2 sequence_parallel: true", 2, 1, kRows / 2},
                      Pipeline{"WithContext", "cp: 2", 2, 1, kRows / 2}),
    [](const auto& info) { return info.param.name; });

// Linear layers: [8, 24] and [24, 16] are a pair, and so are [16, 20] and the output layer [20, 5]. Each pair sums its
// output forward and its input's gradient backward; the logits are whole, so that the loss sends nothing.
TEST(LinearLayers, SumTwiceAPair) {
  const Job job{
      .model = "mlp { inputs: 8 hidden: [24, 16, 20] classes: 5 }", .parallel = "tp: 2", .dp = 2, .micro_batches = 2};
  EXPECT_EQ(Only(AMicroBatch(job), "tp"), (Volumes{{{"all_reduce", "tp"}, (16 + 8 + 5 + 16) * kBatch * kElement}}));
  // Drawn parameters that both ranks have begin as the first one's: biases behind the sums.
  EXPECT_EQ(Only(TheStart(job), "tp"), (Volumes{{{"broadcast", "tp"}, (16 + 5) * kElement}}));
}

// Boundaries of different sizes: the first stage sends its outputs, and the gradients of its second chunk's input.
TEST(LinearLayers, SendEachBoundaryInItsOwnSize) {
  Job job{.model = "mlp { inputs: 8 hidden: [24, 16, 20, 12] classes: 5 }",
          .parallel = "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2",
          .micro_batches = 2};
  const int64_t feature = job.micro_batches * kBatch * kElement;
  EXPECT_EQ(Sum(AStep(job), "send", "pipeline"), (24 + 16 + 20) * feature);
  EXPECT_EQ(Sum(AStep(job), "recv", "pipeline"), (24 + 16 + 20) * feature);
  job.parallel = "pp: 2 tp: 2 stage_layers: [3, 1]";  // within a pair: half the features
  EXPECT_EQ(Sum(AStep(job), "send", "pipeline"), 20 / 2 * feature);
  job.parallel = "pp: 2 tp: 2 stage_layers: [2, 2] scatter_gather_messages: true";
  EXPECT_EQ(Sum(AStep(job), "send", "pipeline"), 16 / 2 * feature);
}

TEST(ResidualBlocks, SendTheirImages) {
  const Job job{.model = "cnn { height: 9 width: 8 widths: [4, 6] blocks: [1, 2] }",
                .parallel = "pp: 2 stage_layers: [2, 1]",
                .micro_batches = 2};
  EXPECT_EQ(Sum(AStep(job), "send", "pipeline"), job.micro_batches * kBatch * 5 * 4 * 6 * kElement);
  EXPECT_EQ(Sum(AStep(job), "recv", "pipeline"), job.micro_batches * kBatch * 5 * 4 * 6 * kElement);
}

// The table that first and last stage share: its gradients are summed once a step.
TEST(PipelineParallel, SumsATiedTableOnce) {
  const Job job{.model = "gpt", .parallel = "pp: 4", .micro_batches = 4, .layers = 4};
  const Volumes step = AStep(job);
  int64_t sums = 0;
  for (const auto& [key, bytes] : step) {
    if (key.first == "all_reduce" && bytes >= kVocab * kHidden * kElement) sums += bytes;
  }
  EXPECT_EQ(sums, kVocab * kHidden * kElement);
  const Volumes start = TheStart(job);
  EXPECT_EQ(Only(start, "embedding"), (Volumes{{{"broadcast", "embedding"}, kVocab * kHidden * kElement}}));
}

// ---- Context parallelism: the ring ----

class ContextParallel : public ::testing::TestWithParam<int> {};

TEST_P(ContextParallel, PassesKeysAndTheirGradientsRound) {
  const int64_t n = GetParam();
  const Job job{.model = "llama", .parallel = StrCat("cp: ", n), .dp = 2, .micro_batches = 2};
  // K: keys and values of a rank's tokens; G, their gradients, is as large in f32.
  const int64_t keys = 2 * kBatch * (kSequence / n) * kKvHeads * kWidth * kElement, round = (n - 1) * keys;
  EXPECT_EQ(Only(ALayer(job), "ring"), (Volumes{{{"batch", "ring"}, 2 * 3 * round}}))
      << "sent, and as much received: K forward, K and G backward";
}
INSTANTIATE_TEST_SUITE_P(Degrees, ContextParallel, ::testing::Values(2, 4),
                         [](const auto& info) { return StrCat(info.param); });

// ---- Expert parallelism ----

class ExpertParallel : public ::testing::TestWithParam<int> {};

TEST_P(ExpertParallel, ExchangesAllSlotsFourTimesALayer) {
  const int64_t n = GetParam();
  const Job job{.model = "moe", .parallel = StrCat("ep: ", n), .dp = 4, .micro_batches = 2};
  // Four experts, top 2, a factor of 1.5: three quarters of the rows each.
  const int64_t slots = 4 * (kRows * 3 / 4) * kHidden * kElement;
  int64_t sum = 0;
  for (const auto& [key, bytes] : ALayer(job)) {
    if (key.first == "all_to_all") sum += bytes;
  }
  EXPECT_EQ(sum, 2 * 4 * slots);
}
INSTANTIATE_TEST_SUITE_P(Degrees, ExpertParallel, ::testing::Values(2, 4),
                         [](const auto& info) { return StrCat(info.param); });

// ---- Data parallelism beside an axis: of this rank's part of a layer alone ----

struct Layout {
  const char* name;
  const char* sharding;
  const char* parallel;
  int64_t gathers, reductions;  // of the layer's parameters, a step of 2 micro-batches; reductions 0: all-reduces
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }
class Replicated : public ::testing::TestWithParam<Layout> {};

TEST_P(Replicated, MovesThePartOfALayerThatARankHas) {
  const Layout& l = GetParam();
  const int64_t tp = 2, replicas = 2;
  const Job job{.model = "gpt",
                .parallel = StrCat("tp: ", tp, " sharding: ", l.sharding, " ", l.parallel),
                .dp = replicas,
                .micro_batches = 2};
  // Matrices and the biases of column-parallel layers are split; two norms and the biases of row-parallel layers are
  // not.
  const int64_t numel = (12 * kHidden * kHidden + 7 * kHidden) / tp + 6 * kHidden,
                padded = (numel + replicas - 1) / replicas * replicas;
  int64_t gathered = 0, reduced = 0, summed = 0;
  for (const auto& [key, bytes] : ALayer(job)) {
    if (key.second == "tp") continue;
    (key.first == "all_gather" ? gathered : key.first == "reduce_scatter" ? reduced : summed) += bytes;
  }
  EXPECT_EQ(gathered, l.gathers * padded * kElement);
  EXPECT_EQ(reduced, l.reductions * padded * kElement);
  EXPECT_EQ(summed, l.reductions == 0 ? numel * kElement : 0);
}
INSTANTIATE_TEST_SUITE_P(Layouts, Replicated,
                         ::testing::Values(Layout{"Ddp", "NO_SHARD", "", 0, 0}, Layout{"Zero1", "ZERO_1", "", 1, 1},
                                           Layout{"Zero2", "ZERO_2", "", 1, 2}, Layout{"Zero3", "ZERO_3", "", 4, 2}),
                         [](const auto& info) { return info.param.name; });

}  // namespace model_parallel_volume_test
}  // namespace twofold
