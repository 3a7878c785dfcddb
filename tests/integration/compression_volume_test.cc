// What every compression sends in a step, under every layout that divides gradients otherwise and with gradients that
// are reduced once or several times, against closed forms; and what it keeps, as the simulated fabric predicts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace compression_volume_test {

constexpr int64_t kRanks = 3, kMicroBatches = 2;  // 3 divides no unit
constexpr int64_t kLayers = 2, kHidden = 20, kVocab = 256, kSequence = 8;

// The matrices of a bucket, [rows, columns], and how many elements all its other parameters have.
struct Parameters {
  std::vector<std::pair<int64_t, int64_t>> matrices;
  int64_t others = 0;
  int64_t numel() const {
    int64_t sum = others;
    for (const auto& [rows, columns] : matrices) sum += rows * columns;
    return sum;
  }
};
Parameters Block() {
  constexpr int64_t h = kHidden;  // four biases, two norms
  return {{{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}}, 3 * h + h + 4 * h + h + 4 * h};
}
Parameters Root() { return {{{kVocab, kHidden}, {kSequence, kHidden}}, 2 * kHidden}; }
Parameters Model() {
  Parameters all = Root();
  for (int64_t i = 0; i < kLayers; ++i) {
    const Parameters block = Block();
    all.matrices.insert(all.matrices.end(), block.matrices.begin(), block.matrices.end());
    all.others += block.others;
  }
  return all;
}

// ---- Payloads of one reduction, by operation: `shards` is 1 if all ranks keep the mean ----

using Payloads = std::map<std::string, int64_t>;
int64_t Up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Codes that are exchanged part by part, and again if all ranks keep the mean.
template <class Bytes>
Payloads InParts(const Parameters& p, bool sharded, Bytes bytes) {
  const int64_t coded = kRanks * bytes(Up(p.numel(), kRanks));
  return sharded ? Payloads{{"all_to_all", coded}} : Payloads{{"all_to_all", coded}, {"all_gather", coded}};
}

struct Method {
  const char* name;
  const char* codec;
  std::function<Payloads(const Parameters&, bool sharded)> reduction;
};

const std::vector<Method>& Methods() {
  static const auto* methods = new std::vector<Method>{
      {"none", "",
       [](const Parameters& p, bool sharded) -> Payloads {
         if (sharded) return {{"reduce_scatter", 4 * kRanks * Up(p.numel(), kRanks)}};
         return {{"all_reduce", 4 * p.numel()}};
       }},
      {"quantize", "quantize {}",
       [](const Parameters& p, bool sharded) {
         return InParts(p, sharded, [](int64_t n) { return n + 4 * Up(n, 256); });
       }},
      {"quantize_4", "quantize { bits: 4 block: 512 stochastic: true }",
       [](const Parameters& p, bool sharded) {
         return InParts(p, sharded, [](int64_t n) { return Up(n, 2) + 4 * Up(n, 512); });
       }},
      {"one_bit", "one_bit {}",
       [](const Parameters& p, bool sharded) {
         return InParts(p, sharded, [](int64_t n) { return Up(n, 8) + 4 * Up(n, 1024); });
       }},
      {"top_k", "top_k { density: 0.02 }",
       [](const Parameters& p, bool sharded) -> Payloads {
         const auto bytes = [](int64_t n) { return 8 * std::llround(0.02 * static_cast<double>(n)); };
         if (sharded) return {{"all_to_all", kRanks * bytes(Up(p.numel(), kRanks))}};
         return {{"all_gather", kRanks * bytes(p.numel())}};
       }},
      {"random_k", "random_k { density: 0.02 }",
       [](const Parameters& p, bool sharded) -> Payloads {
         const auto bytes = [](int64_t n) { return 4 * std::llround(0.02 * static_cast<double>(n)); };
         if (sharded) return {{"reduce_scatter", kRanks * bytes(Up(p.numel(), kRanks))}};
         return {{"all_reduce", bytes(p.numel())}};
       }},
      {"power_sgd", "power_sgd { rank: 2 start_step: 0 }", [](const Parameters& p, bool sharded) -> Payloads {
         int64_t elements = p.others + (sharded ? kRanks * Up(p.numel(), kRanks) - p.numel() : 0);  // padding
         for (const auto& [rows, columns] : p.matrices) elements += 2 * (rows + columns);
         return {{"all_reduce", 4 * elements}};
       }}};
  return *methods;
}

struct Layout {
  const char* name;
  const char* parallel;
  bool sharded;
  int64_t reductions;  // a step
};
constexpr Layout kLayouts[] = {{"Ddp", "reduce_every_micro_batch: false", false, 1},
                               {"DdpEvery", "reduce_every_micro_batch: true", false, kMicroBatches},
                               {"Zero1", "sharding: ZERO_1", true, 1},
                               {"Zero2", "sharding: ZERO_2", true, kMicroBatches},
                               {"Zero2Once", "sharding: ZERO_2 reduce_every_micro_batch: false", true, 1},
                               {"Zero3", "sharding: ZERO_3", true, kMicroBatches}};

std::string Text(const Layout& layout, const Method& method, int64_t steps, std::string_view precision = "") {
  const std::string_view codec = method.codec;
  return StrCat("model { gpt { layers: ", kLayers, " hidden: ", kHidden, " heads: 2 vocab: ", kVocab,
                " sequence: ", kSequence, " } }\ntrain { warmup_steps: 0 steps: ", steps,
                " micro_batch: 1 global_batch: ", kRanks * kMicroBatches, " optimizer { sgd {} } precision { ",
                precision, " } }\nparallel { dp: ", kRanks, " ", layout.parallel,
                codec.empty() ? "" : StrCat(" compression { ", codec, " }"), " }\n");
}

// Of one rank, by operation, without gathered parameters and the loss's own all-reduce of 4 bytes a step.
Payloads PayloadsOf(const Layout& layout, const Method& method, int64_t steps) {
  Payloads payloads;
  const auto records = test::RunText(Text(layout, method, steps) + test::kInMemory);
  for (const report::Collective& call : records[0].collectives()) {
    if (call.group() != "gather") payloads[call.operation()] += call.bytes();
  }
  payloads["all_reduce"] -= 4 * steps;
  return payloads;
}

class CompressionVolume : public ::testing::TestWithParam<Layout> {};

TEST_P(CompressionVolume, IsTheClosedForm) {
  const Layout& layout = GetParam();
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    Payloads step = PayloadsOf(layout, method, 3);
    for (const auto& [operation, bytes] : PayloadsOf(layout, method, 2)) step[operation] -= bytes;
    std::erase_if(step, [](const auto& item) { return item.second == 0; });
    Payloads want;
    const auto add = [&](const Parameters& bucket, int64_t times) {
      for (const auto& [operation, bytes] : method.reduction(bucket, layout.sharded))
        want[operation] += times * bytes * layout.reductions;
    };
    if (layout.sharded)
      add(Block(), kLayers), add(Root(), 1);
    else
      add(Model(), 1);
    EXPECT_EQ(step, want);
  }
}

// What the report names: gradients with padding, and what became of them before ranks that average parts of them encode
// these again.
TEST_P(CompressionVolume, IsInTheReport) {
  const Layout& layout = GetParam();
  for (const Method& method : Methods()) {
    SCOPED_TRACE(method.name);
    const auto records = test::RunText(Text(layout, method, 2) + test::kInMemory);
    int64_t before = 0, after = 0;
    const auto add = [&](const Parameters& bucket, int64_t times) {
      times *= layout.reductions;
      before += times * 4 * (layout.sharded ? kRanks * Up(bucket.numel(), kRanks) : bucket.numel());
      Payloads payloads = method.reduction(bucket, layout.sharded);
      if (payloads.contains("all_to_all")) payloads.erase("all_gather");
      for (const auto& [operation, bytes] : payloads) after += times * bytes / (operation == "all_gather" ? kRanks : 1);
    };
    if (layout.sharded)
      add(Block(), kLayers), add(Root(), 1);
    else
      add(Model(), 1);
    const bool encodes = *method.codec != '\0';
    for (const report::Step& step : records[0].steps()) {
      EXPECT_EQ(step.bytes_before_codec(), encodes ? before : 0);
      EXPECT_EQ(step.bytes_after_codec(), encodes ? after : 0);
    }
  }
}

TEST_P(CompressionVolume, MemoryIsWhatIsPredicted) {
  for (const Method& method : Methods()) {
    for (const char* precision : {"parameter: F32", "parameter: BF16", "parameter: BF16 gradient: F32"}) {
      SCOPED_TRACE(StrCat(method.name, " ", precision));
      const std::string text = Text(GetParam(), method, 3, precision);
      const auto measured = test::RunText(text + test::kInMemory),
                 predicted = test::RunText(text + test::Simulated("SYMBOLIC"));
      ASSERT_EQ(measured.size(), predicted.size());
      for (size_t r = 0; r < measured.size(); ++r) {
        EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes()) << "rank " << r;
        EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes()) << "rank " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CompressionVolume, ::testing::ValuesIn(kLayouts),
                         [](const auto& info) { return info.param.name; });

}  // namespace compression_volume_test
}  // namespace twofold
